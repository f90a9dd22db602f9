"""Files that another program reads: scripts, stubs, path files, and pointers of git-lfs."""

from __future__ import annotations

import json
import re

from packaging.utils import canonicalize_name

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.model import (
    ContentRequest,
    Distribution,
    Member,
    Package,
    PathFile,
    PathFiles,
    PointerFiles,
    ScriptHead,
    SmallFiles,
    TreeEntry,
    UnparsedSource,
    read_requirement,
)
from binary_checks.python_code.start_lines import StartLine

# Scripts that the shell reads, and stubs that a library reads at run time.

_LONGEST_HEAD = 512  # bytes of a first line; Linux reads 256 (BINPRM_BUF_SIZE)
_IN_SCRIPTS = re.compile(r"\A[^/]+\.data/scripts/[^/]+\Z")
_SBOMS = ".dist-info/sboms/"  # PEP 770
_READS_STUB = re.compile(rb"\battach_stub\(\s*__name__\s*,\s*__file__\s*\)")
"""The call with which a package lets lazy_loader read ``__init__.pyi`` next to ``__init__.py``
(https://scientific-python.org/specs/spec-0001, "Type checkers").
"""
_STUB_READERS = frozenset({"lazy-loader"})
"""Projects, by their normalised names, that read stubs in this way."""


def _may_be_read(entry: TreeEntry) -> bool:
    return _IN_SCRIPTS.match(entry.name) is not None or _SBOMS in entry.name


SCRIPTS = ContentRequest(chooses=_may_be_read, longest=1 << 20)
"""Longer scripts, most of which are programs in fact, are read again if they are not."""


@gathers(SmallFiles, wants=(SCRIPTS,))
def read_small_files(package: Distribution, contents: MemberContents) -> SmallFiles:
    """Read the first lines of scripts, parse SBOMs, and find modules that read stubs.

    Raises PackageError.
    """
    objects = {item.path for item in package.objects}
    chosen = {
        member: kind
        for member in package.members
        if member.path not in objects and (kind := _classify(member, package))
    }
    scripts, readers, unread = list[ScriptHead](), list[str](), list[UnparsedSource]()
    sboms = list[tuple[str, str]]()
    for member, content in contents.each(chosen):
        kind = chosen[member]
        if isinstance(content, Unavailable):
            unread.append(UnparsedSource(path=member.path, reason=str(content)))
        elif kind == "script":
            scripts.append(ScriptHead(path=member.path, interpreter=_read_interpreter(content)))
        elif kind == "sbom":
            sboms.append((member.path, _find_json_fault(content)))
        elif _READS_STUB.search(content):
            readers.append(member.path)
    return SmallFiles(
        scripts=tuple(sorted(scripts, key=lambda each: each.path)),
        stub_readers=tuple(sorted(readers)),
        sboms=tuple(sorted(sboms)),
        unread=tuple(sorted(unread, key=lambda each: each.path)),
    )


def _classify(member: Member, package: Distribution) -> str:
    """Return which kind of small file a member is, or ""."""
    inside = package.layout.inside(member.path)
    if member.is_directory:
        return ""
    if _IN_SCRIPTS.match(member.archive_name):
        return "script"
    if _SBOMS in member.archive_name:
        return "sbom" if member.path.endswith(".json") else ""
    reads = inside and inside.endswith("/__init__.py") and package.derive(_requires_stub_reader)
    return "module" if reads else ""


def _requires_stub_reader(package: Distribution) -> bool:
    required = filter(None, map(read_requirement, package.requires_dist))
    return not _STUB_READERS.isdisjoint(canonicalize_name(each.name) for each in required)


def _find_json_fault(content: bytes) -> str:
    """Return why a text is not JSON, or "" if it is."""
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _read_interpreter(content: bytes) -> str:
    first = content[:_LONGEST_HEAD].partition(b"\n")[0]
    return first[2:].decode("utf-8", "replace") if first.startswith(b"#!") else ""


# Files for Python's module ``site``: ``*.pth`` at the top level of site-packages.

_PATH_FILE = ".pth"


def _is_path_file(entry: TreeEntry) -> bool:
    return entry.name.endswith(_PATH_FILE)


PATH_FILES = ContentRequest(chooses=_is_path_file, longest=LARGEST)


@gathers(PathFiles, wants=(PATH_FILES,))
def read_path_files(package: Distribution, contents: MemberContents) -> PathFiles:
    """Read the path files as ``site`` does, but execute no line. Raises PackageError."""
    chosen = [
        member
        for member in package.members
        if (inside := package.layout.inside(member.path)) is not None
        and "/" not in inside
        and inside.endswith(_PATH_FILE)
    ]
    files, unread = list[PathFile](), list[UnparsedSource]()
    for member, content in contents.each(chosen):
        if isinstance(content, Unavailable):
            unread.append(UnparsedSource(path=member.path, reason=str(content)))
        else:
            files.append(_read_path_file(member.path, content))
    return PathFiles(
        files=tuple(sorted(files, key=lambda each: each.path)),
        unread=tuple(sorted(unread, key=lambda each: each.path)),
    )


def _read_path_file(path: str, content: bytes) -> PathFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return PathFile(path=path, is_utf_8=False)
    folders, modules, chosen = list[str](), list[str](), list[str]()
    fault = unfollowed = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("import ", "import\t")):
            code = StartLine(line)
            modules += code.modules
            chosen += code.chosen
            fault = fault or (code.fault and f"line {number} {code.fault}")
            unfollowed = unfollowed or (code.unfollowed and f"line {number}: {code.unfollowed}")
        elif line.strip() and not line.startswith("#"):
            folders.append(line.rstrip())
    return PathFile(
        path=path,
        folders=tuple(folders),
        modules=tuple(modules),
        chosen=tuple(chosen),
        fault=fault,
        unfollowed=unfollowed,
    )


# Files that are pointers of git-lfs instead of the content that they stand for.

# The first line of every pointer, up to the version (git-lfs docs/spec.md), and of pointers from
# before git-lfs had its name.
_BEGINNINGS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/spec/",
)
_SHORTEST_POINTER = 115  # bytes: the first line, an oid in SHA-256, and a size of one digit
_LONGEST_POINTER = 1023  # bytes; git-lfs takes no longer file for a pointer


def _may_be_pointer(entry: TreeEntry) -> bool:
    return _SHORTEST_POINTER <= entry.size <= _LONGEST_POINTER


SMALL_FILES = ContentRequest(chooses=_may_be_pointer, longest=_LONGEST_POINTER)


@gathers(PointerFiles, wants=(SMALL_FILES,))
def find_pointers(package: Package, contents: MemberContents) -> PointerFiles:
    """Find the pointers among the package's small files. Raises PackageError."""
    small = [each for each in package.members if _SHORTEST_POINTER <= each.size <= _LONGEST_POINTER]
    paths, unread = list[str](), list[tuple[str, str]]()
    for member, content in contents.each(small):
        if isinstance(content, Unavailable):
            unread.append((member.path, str(content)))
        elif content.startswith(_BEGINNINGS) and content.count(b"\noid ") == 1:
            paths.append(member.path)
    return PointerFiles(paths=tuple(sorted(paths)), unread=tuple(sorted(unread)))
