"""Small files that the shell or a library reads: scripts, and stubs that are read at run time."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import (
    ContentRequest,
    Distribution,
    Member,
    ScriptHead,
    SmallFiles,
    TreeEntry,
    UnparsedSource,
    read_requirement,
)

_LONGEST = 1 << 20  # bytes of a script; the longest real ones have 100 KB
_LONGEST_HEAD = 512  # bytes of a first line; Linux reads 256 (BINPRM_BUF_SIZE)
_IN_SCRIPTS = re.compile(r"\A[^/]+\.data/scripts/[^/]+\Z")
_READS_STUB = re.compile(rb"\battach_stub\(\s*__name__\s*,\s*__file__\s*\)")
"""The call with which a package lets lazy_loader read ``__init__.pyi`` next to ``__init__.py``
(https://scientific-python.org/specs/spec-0001, "Type checkers").
"""
_STUB_READERS = frozenset({"lazy-loader"})
"""Projects, by their normalised names, that read stubs in this way."""


def _is_script(entry: TreeEntry) -> bool:
    return _IN_SCRIPTS.match(entry.name) is not None


SCRIPTS = ContentRequest(chooses=_is_script, longest=_LONGEST)


@gathers(SmallFiles, wants=(SCRIPTS,))
def read_small_files(package: Distribution, contents: MemberContents) -> SmallFiles:
    """Read the first lines of scripts, and find modules that read stubs.

    Raises PackageError.
    """
    objects = {item.path for item in package.objects}
    chosen = {
        member: kind
        for member in package.members
        if member.path not in objects and (kind := _classify(member, package))
    }
    scripts, readers = list[ScriptHead](), list[str]()
    unread = [
        UnparsedSource(path=member.path, reason=f"it has {member.size} bytes, and is not read")
        for member in chosen
        if member.size > _LONGEST
    ]
    for member, content in contents.each(each for each in chosen if each.size <= _LONGEST):
        kind = chosen[member]
        if isinstance(content, Unavailable):
            unread.append(UnparsedSource(path=member.path, reason=str(content)))
        elif kind == "script":
            scripts.append(ScriptHead(path=member.path, interpreter=_read_interpreter(content)))
        elif _READS_STUB.search(content):
            readers.append(member.path)
    return SmallFiles(
        scripts=tuple(sorted(scripts, key=lambda each: each.path)),
        stub_readers=tuple(sorted(readers)),
        unread=tuple(sorted(unread, key=lambda each: each.path)),
    )


def _classify(member: Member, package: Distribution) -> str:
    """Return which kind of small file a member is, or ""."""
    inside = package.layout.inside(member.path)
    if member.is_directory:
        return ""
    if _IN_SCRIPTS.match(member.archive_name):
        return "script"
    reads = inside and inside.endswith("/__init__.py") and package.derive(_requires_stub_reader)
    return "module" if reads else ""


def _requires_stub_reader(package: Distribution) -> bool:
    required = filter(None, map(read_requirement, package.requires_dist))
    return not _STUB_READERS.isdisjoint(canonicalize_name(each.name) for each in required)


def _read_interpreter(content: bytes) -> str:
    first = content[:_LONGEST_HEAD].partition(b"\n")[0]
    return first[2:].decode("utf-8", "replace") if first.startswith(b"#!") else ""
