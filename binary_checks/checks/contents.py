"""Files that do not belong in a package (litter, copies, names that collide), and lost ones."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.library_names import find_owner
from binary_checks.knowledge.python_libraries import INTERPRETERS, OF_INSTALLERS, is_for_tests
from binary_checks.model import (
    ANY_SYSTEM,
    CodeNames,
    Distribution,
    ElfFile,
    Finding,
    InstalledPackage,
    Kind,
    Level,
    Linkage,
    MachOFile,
    Member,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    PointerFiles,
    Problem,
    SmallFiles,
    TargetSystem,
    WheelLike,
    format_of_name,
    names_required,
    read_numbers,
)
from binary_checks.safe_text import elide
from binary_checks.wording.sentences import name_first

_VERSION_CONTROL = frozenset(
    {".git", ".gitignore", ".gitattributes", ".gitmodules", ".gitkeep", ".hg", ".hgignore"}
    | {".hgtags", ".svn", ".bzr", "CVS", ".DS_Store", "Thumbs.db", "desktop.ini"}
)
_OF_NEW_PROJECTS = frozenset({".gitignore", ".gitattributes", ".gitkeep"})
_TEMPLATES = frozenset({"template", "templates", "skeleton", "scaffold"})
"""Folders whose files a command copies into a new project: ``asv quickstart`` copies every file of
asv/template, with its .gitignore."""
_BYTECODE = (".pyc", ".pyo")
_INIT = "__init__.py"
_PROGRAMS = r"[^/]+\.data/(?:scripts|data/bin|data/Scripts)/"
_REPLACED = {
    rf"(?i){_PROGRAMS}(?:{INTERPRETERS})(?:\.exe)?": "overwrites the interpreter if pip installs "
    "it; uv refuses to",
    rf"(?:{_PROGRAMS}|[^/]+\.data/data/)pyvenv\.cfg": "takes the place of the pyvenv.cfg by which "
    "Python finds the environment",
}
_SITE_PACKAGES = re.compile(
    r"[^/]+\.data/(?:purelib|platlib|data/(?:lib/python[\d.]+|Lib)/site-packages)/"
)
_SOURCE_TREE = frozenset(
    {"test", "tests", "doc", "docs", "example", "examples", "scripts", "build", "data"}
    # folders that C++ projects install, such as libigl 2.6.3 for Windows
    | {"bin", "include", "lib", "share"}
)
_SOURCE_FILES = (
    *("license*", "licence*", "copying*", "readme*", "changelog*", "*.c", "*.h", "*.cpp", "*.hpp"),
    *("*.cfg", "*.ini", "*.md", "*.rst", "*.toml"),
)
"""Files of a source tree that no import and no installer looks for in site-packages."""
_NOT_ON_WINDOWS = frozenset('<>"|?*').union(map(chr, range(32)))
_DEVICES = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"}).union(
    f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³"
)
"""Names by which Windows opens a device, in every folder and with any extension (Microsoft, "Naming
Files, Paths, and Namespaces"). Windows 11 allows some extensions; Windows 10 does not.
"""


@check(level=Level.WARNING)
def bytecode_in_wheel(package: WheelLike) -> Iterator[Finding]:
    """A wheel contains compiled Python files.

    Why: they work with one interpreter only and contain paths of the build machine; installers
    compile their own.
    Fix: exclude ``__pycache__`` and ``*.pyc`` in the build backend.
    Level: it wastes space: other interpreters ignore it.
    """
    for member in _files(package):
        if member.path.endswith(_BYTECODE):
            sentence = "is compiled for one interpreter; installers compile their own"
            yield Problem(path=member.path, sentence=sentence)


@check(level=Level.WARNING)
def version_control_litter(package: Package) -> Iterator[Finding]:
    """A package contains files that only a working copy or a desktop needs.

    A ``.gitignore``, ``.gitattributes`` or ``.gitkeep`` in a folder of templates for new projects
    (``template``, ``templates``, ``skeleton``, ``scaffold``) is accepted.

    Why: they were packed by accident, and private files may have been packed with them.
    Fix: list the files that belong in the package, instead of packing a whole folder.
    Level: nothing reads these files once they are installed.
    """
    if package.claims.partial:
        raise NotApplicable(f"{package.noun} is not what users get")
    for member in _files(package):
        *folders, name = member.path.split("/")
        if name in _OF_NEW_PROJECTS and not _TEMPLATES.isdisjoint(map(str.lower, folders)):
            continue
        parts = {*folders, name}
        if not _VERSION_CONTROL.isdisjoint(parts):
            name = min(_VERSION_CONTROL.intersection(parts))
            yield Problem(path=member.path, sentence=f"{name} does not belong in a built package")


@check
def git_lfs_pointer(package: Package, pointers: PointerFiles) -> Iterator[Finding]:
    """A file is a pointer of git-lfs instead of the content that it stands for.

    malformed-object reports pointers that are named like a library. One in a folder of tests is
    noted.

    Why: whatever opens the file (a font, a model, a table) reads three lines of text.
    Fix: build from a checkout in which ``git lfs pull`` ran (``actions/checkout`` with
    ``lfs: true``).
    Level: users do not have the content of the file.
    """
    reported = {item.path for item in package.malformed}
    for path in pointers.paths:
        if path not in reported:
            for_tests = is_for_tests(package.layout.shorten(path).split("/"))
            kind = Note if for_tests else Problem
            yield kind(path=path, sentence="is a git-lfs pointer: its content was not packed")
    for path, reason in pointers.unread:
        yield NotInspected(path=path, sentence=reason)


@check(level=Level.WARNING)
def sbom_is_not_json(package: WheelLike, files: SmallFiles) -> Iterator[Finding]:
    """A file in ``.dist-info/sboms`` is named like JSON, but cannot be parsed.

    A software bill of materials (SBOM, PEP 770) lists the libraries that the wheel bundles, as
    auditwheel writes it.

    Why: scanners ignore the file, and its users do not learn which of the libraries have known
    vulnerabilities.
    Fix: write the file again, with the tool that made it.
    Level: nothing but scanners reads the file.
    """
    unread = [each for each in files.unread if f"{package.dist_info}/sboms/" in each.path]
    if not (files.sboms or unread):
        raise NotApplicable("no SBOM that is named like JSON")
    for each in unread:
        yield NotInspected(path=each.path, sentence=each.reason)
    for path, fault in files.sboms:
        if fault:
            yield Problem(path=path, sentence=f"is named like JSON, but is not: {fault}")


_WITH_LICENSES = (2, 4)  # the first Metadata-Version with a place for license files (PEP 639)


@check
def missing_license_file(package: WheelLike) -> Iterator[Finding]:
    """A license file that METADATA names is not in the wheel.

    From Metadata-Version 2.4 on, the files lie in ``licenses`` in the .dist-info folder.

    Why: PyPI refuses the upload, and users get a package without the license that copies of it must
    include.
    Fix: list the file in ``license-files`` in pyproject.toml, and do not delete it afterwards.
    Level: nobody gets a release that was not uploaded.
    """
    if tuple(read_numbers(package.header("Metadata-Version"))) < _WITH_LICENSES:
        return
    names = {member.archive_name for member in package.members}
    stated = (value for key, value in package.metadata if key.lower() == "license-file")
    for name in dict.fromkeys(stated):
        path = f"{package.dist_info}/licenses/{name}"
        if path not in names:
            yield Problem(
                path=f"{package.dist_info}/METADATA",
                sentence=f"names the license file {elide(name)}, but the wheel has no "
                f"{elide(path)}",
                facts=(name,),
            )


@check(level=Level.WARNING)
def stray_top_level_folder(package: WheelLike) -> Iterator[Finding]:
    """A wheel installs a top-level folder, module or file of the project's source tree.

    The check reports ``tests``, ``docs``, ``examples``, ``scripts``, ``build``, ``data``, ``bin``,
    ``lib``, ``include`` and ``share``, unless the project has that name; texts and C sources next
    to the package, such as ``LICENSE``; and an ``__init__.py`` that is in no folder.

    Why: every project has such files; in site-packages, the files of two distributions overwrite
    each other, and a module called ``test`` can never be imported: the standard library's comes
    first.
    Fix: keep them inside the package, or out of the wheel (``packages.find`` with ``include``).
    Level: the package itself works; only these files are overwritten, or overwrite files of another
    project.
    """
    names = (package.layout.inside(member.path) or "" for member in _files(package))
    roots = Counter((root, bool(slash)) for root, slash, _ in (n.partition("/") for n in names))
    for (root, is_folder), count in sorted(roots.items()):
        if not _is_of_source_tree(root, package, is_folder=is_folder):
            continue
        if root == _INIT:
            sentence = "no import executes it at the top level of site-packages, only in a folder"
            yield Problem(path=root, sentence=sentence)
            continue
        files = f"{count} file{'' if count == 1 else 's'}"
        yield Problem(
            path=root,
            sentence=f"{files} at the top level of site-packages, in collision with any other "
            f"project's {root}",
        )


def _is_of_source_tree(root: str, package: WheelLike, *, is_folder: bool) -> bool:
    if root == _INIT and not is_folder:
        return True
    if is_folder or root.endswith(".py"):
        name = root if is_folder else root.removesuffix(".py")
        return name in _SOURCE_TREE and name != package.name
    return any(fnmatchcase(root.lower(), pattern) for pattern in _SOURCE_FILES)


@check
def environment_replaced(package: WheelLike) -> Iterator[Finding]:
    """A wheel takes the place of files of the environment, of an installer or of another project.

    The check reports a script that is called like the interpreter (``python``, ``pypy3``); a
    ``pyvenv.cfg`` next to the interpreter or in the folder above; an ``__init__.py`` of pip,
    setuptools or wheel; and the ``.dist-info`` or ``.egg-info`` of another project.

    Why: pip overwrites the interpreter, and nothing in the environment starts any more; pip itself
    becomes other code; or installers take a project for installed that is not.
    Fix: give the script another name; keep files of environments and of other projects out of the
    wheel.
    Level: the environment is broken, or the installer refuses the wheel.
    """
    # of a folder with many files each file yields the same path and sentence
    found = dict(_find_replaced(package, member.archive_name) for member in _files(package))
    yield from (Problem(path=path, sentence=found[path]) for path in filter(None, found))


def _find_replaced(package: WheelLike, name: str) -> tuple[str, str]:
    """Return the path of what a member replaces or pretends to be, and a sentence; else ""."""
    for pattern, sentence in _REPLACED.items():
        if re.fullmatch(pattern, name):
            return name, sentence
    root, _, rest = _SITE_PACKAGES.sub("", name).partition("/")
    stem, _, kind = root.rpartition(".")
    if rest == _INIT and OF_INSTALLERS.get(root, package.name) != package.name:
        return root, f"overwrites the package {root}, which {OF_INSTALLERS[root]} installs"
    if kind in {"dist-info", "egg-info"}:
        own, other = map(canonicalize_name, (package.name, stem.partition("-")[0]))
        if own != other:
            return root, f"makes installers believe that {stem} is installed"
    return "", ""


@check
def case_collision(package: Package) -> Iterator[Finding]:
    """The names of two files differ only in upper and lower case.

    Why: on macOS and Windows the second overwrites the first.
    Fix: rename one of them.
    Level: users on macOS and Windows lose a file. In a package for Linux alone it is only noted.
    """
    files = dict.fromkeys(package.layout.shorten(member.path) for member in _files(package))
    if len({path.casefold() for path in files}) == len(files):
        return
    systems = {claim.system for claim in package.claims.systems}
    # Linux's headers need such names. A folder with programs for Linux lies on a disk that keeps
    # both names, even if it has tools for Windows.
    for_linux = systems == {"linux"} or (package.claims.partial and "linux" in systems)
    kind = Note if for_linux else Problem
    spellings: dict[str, set[str]] = defaultdict(set)
    for path in files:
        spellings[path.casefold()].add(path)
    for paths in spellings.values():
        first, *others = sorted(paths)
        for path in others:
            yield kind(
                path=path,
                sentence=f"differs only in case from {first}: macOS and Windows keep only one",
            )


@check
def name_invalid_on_windows(package: Package) -> Iterator[Finding]:
    """A package that promises Windows contains a name that Windows does not allow.

    Windows does not allow the name of a device (``aux.py``, ``con``), a name that contains a
    control character, a colon or one of ``< > " | ? *``, or a name that ends in a dot or a space.
    The same holds for the names of commands.

    Why: pip on Windows aborts at such a file, or writes it under another name than RECORD lists.
    Fix: rename the file; a wheel tagged ``any`` promises Windows as well.
    Level: users on Windows cannot install the package, or get a file that nothing finds.
    """
    systems = {claim.system for claim in package.claims.systems}
    if systems.isdisjoint({"windows", ANY_SYSTEM}):
        raise NotApplicable("it does not promise to run on Windows")
    reported: set[str] = set()
    for member in package.members:
        names = member.archive_name.rstrip("/").split("/")
        faults = ((at, _judge_windows_name(name, at)) for at, name in enumerate(names))
        at, fault = next((each for each in faults if each[1]), (0, ""))
        path = "/".join(names[: at + 1])
        if fault and path not in reported:  # a folder is reported once, not for each of its files
            reported.add(path)
            yield Problem(path=path, sentence=fault)
    if isinstance(package, Distribution):
        path = f"{package.dist_info}/entry_points.txt"
        for name in package.commands:
            if fault := _judge_windows_name(f"{name}.exe", 1):
                yield Problem(path=path, sentence=f"the command {name}: {fault}", facts=(name,))


def _judge_windows_name(name: str, position: int) -> str:
    """Return why Windows does not allow one part of a path; "" if it does."""
    is_drive = position == 0 and name[1:2] == ":"
    if name in {"", ".", ".."} or "\\" in name or is_drive:
        return ""  # escaping-member-name reports these
    stem, colon, _ = name.partition(":")
    device = stem.partition(".")[0].rstrip(" ")
    if device.lower() in _DEVICES:
        return f"Windows opens the device {device.upper()} by this name: pip aborts there"
    if invalid := sorted(_NOT_ON_WINDOWS.intersection(name)):
        return f"no name on Windows may contain {invalid[0]!r}: pip aborts there"
    if colon:
        return f"Windows writes it into an alternate data stream of {stem!r}: nothing finds it"
    if name[-1] in ". ":
        return f"Windows drops the {name[-1]!r} at the end: it installs as {name.rstrip('. ')!r}"
    return ""


_VERSION = re.compile(r"[-_.]?\d+(?:git)?")
"""A part of a version in a file's name: libpng.dylib, libpng16.dylib and libpng16.16.dylib."""


@check(level=Level.WARNING)
def duplicate_library(
    package: Package,
    target: TargetSystem | Package,
    linkage: Linkage | Package,
    *,
    minimum: int = 100_000,
) -> Iterator[Finding]:
    """Users store the same library twice.

    A package contains the same object file several times under different names, or a vendor's
    library, such as ``libcudnn.so.9``, although it requires the vendor's wheel with that library.
    Copies that a wheel, which cannot contain symbolic links, keeps on purpose are only noted: names
    in one folder that differ in their versions (``libx.so`` and ``libx.so.1``), and copies in two
    folders if other files of the package load both. The option ``minimum`` is the size in bytes
    from which a copy counts.

    Why: all copies are downloaded and stored, and a process that loads two of them has two copies
    of the library's state. If a vendor's library is there twice, all of the process uses the one
    that is loaded first.
    Fix: keep the file that the others need by name, and link against that name. Exclude from
    bundling what a requirement has (``auditwheel repair --exclude``), or drop the requirement.
    Level: it wastes space, and breaks nobody.
    """
    yield from _find_bundled_again(package, target)
    objects = {item.path for item in package.objects}
    objects.update(item.path for item in package.malformed)
    objects.update(item.path for item in package.unread)
    copies: dict[tuple[str, int], list[str]] = defaultdict(list)
    for member in package.members:
        if member.path in objects and member.sha256 and member.size >= minimum:
            copies[member.sha256, member.size].append(member.path)
    shorten = package.layout.shorten
    loaded = {edge.resolved for edge in linkage.edges} if isinstance(linkage, Linkage) else set()
    for (_, size), paths in copies.items():
        first, *others = sorted(paths, key=shorten)
        for path in others:
            (folder, _, name), (other, _, its) = (each.rpartition("/") for each in (path, first))
            alike = _VERSION.sub("", name) == _VERSION.sub("", its)
            kept = alike and (folder == other or {path, first} <= loaded)
            sentence = f"is a copy of {shorten(first)} ({size} bytes): users store both"
            yield (Note if kept else Problem)(path=shorten(path), sentence=sentence)


def _find_bundled_again(package: Package, target: TargetSystem | Package) -> Iterator[Problem]:
    """Yield the first library of each required wheel that the package has, too."""
    if isinstance(target, Package) or not package.claims.requirements:
        return
    required = names_required(package.claims.requirements, target)
    again: dict[str, list[ObjectFile]] = {}
    for item in package.objects:
        if item.kind is Kind.SHARED and (owner := find_owner(item.file_name, required)):
            again.setdefault(owner, []).append(item)
    for owner, items in again.items():
        names = name_first([item.file_name for item in items])
        yield Problem(
            path=items[0].path,
            sentence=f"is in {owner}, too, which the package requires ({names}): users store both, "
            "and a process uses the one that it loads first",
            facts=(owner,),
        )


@check
def program_not_executable(
    library: ElfFile | MachOFile, package: WheelLike, code: CodeNames
) -> Iterator[Finding]:
    """A program has lost its executable bit.

    Installers keep the bit as the archive has it; only uv sets it for files of ``.data/scripts``.
    Programs in folders of tests do not count. If the package's own code contains the word
    ``chmod``, it may set the bit itself, and the program is noted only.

    Why: starting the program fails with "Permission denied".
    Fix: set the bit before the wheel is built, on Linux or macOS (``chmod +x``); archives that are
    packed on Windows have no such bits.
    Level: the package's own code names the program, or the program is in a folder ``bin``, where
    users and other packages look for it. Otherwise it is a warning: nothing is known to start it.
    """
    program = library.kind is Kind.EXECUTABLE and format_of_name(library.path) is None
    mode = package.derive(_find_modes).get(library.path, 0o777)
    names = library.path.split("/")
    if not program or mode & 0o111 or is_for_tests(names):
        return
    sentence = f"is a program without the executable bit ({mode & 0o777:04o}): it cannot be started"
    if code.changes_modes:
        sentence = f"{sentence}, unless the package's own code changes the bit (chmod)"
        yield Note(path=library.path, sentence=sentence)
        return
    wanted = library.path in code.named | code.guided or "bin" in names[:-1]
    level = Level.ERROR if wanted else Level.WARNING
    yield Problem(path=library.path, sentence=sentence, level=level)


def _find_modes(package: Package) -> dict[str, int]:
    return {member.path: member.mode for member in package.members}


@check(enabled=False)
def wheel_too_large(
    package: Package, *, limit: int = 0, limits: Mapping[str, int] = {}
) -> Iterator[Finding]:
    """A package file is larger than the profile allows.

    The option ``limit`` is in bytes; a package index has a limit, too (PyPI: 100 MB for a file,
    unless it granted the project more). ``limits`` sets other limits by globs on the file name; the
    first that matches decides.

    Why: the upload fails on the day of the release, or users cancel the download.
    Fix: strip debug information, drop duplicate libraries, split off optional parts.
    Level: the project itself set the limit, or its index refuses the upload.
    """
    if isinstance(package, InstalledPackage):
        raise NotApplicable("an installed package is not a file")
    name = package.path.name
    allowed = next((most for glob, most in limits.items() if fnmatchcase(name, glob)), limit)
    if not allowed:
        yield NotInspected(sentence="no limit is set: the option limit is 0")
    elif package.size > allowed:
        yield Problem(sentence=f"is {package.size} bytes, but the limit is {allowed}")


def _files(package: Package) -> Iterable[Member]:
    return [member for member in package.members if member.archive_name[-1:] != "/"]


@check(enabled=False, level=Level.WARNING)
def debug_information(library: ElfFile | PeFile) -> Iterator[Finding]:
    """An object contains debug information.

    Why: it is often most of the file's size, and no user's process reads it.
    Fix: link with ``-Wl,--strip-debug``, or ship it separately (``objcopy --only-keep-debug``).
    Level: it wastes space, and breaks nobody.
    """
    if library.debug_information:
        yield f"has debug information (.debug_info) in its {library.size} bytes"
