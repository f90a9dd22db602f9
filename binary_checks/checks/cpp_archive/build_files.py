"""The files that an archive has for CMake and pkg-config, and its headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import ElfFile, Finding, Kind, Level, NotInspected, Problem, StaticArchive
from binary_checks.model.mangling import names_old_abi
from binary_checks.model.packages import CppArchive, NamedPath, PathRole
from binary_checks.wording.phrases import name_first

_OF_SYSTEM = ("/System/Library/",)
"""What every macOS has at this place."""
_FILES = frozenset({PathRole.LOCATION, PathRole.INCLUDE})
_NOWHERE = "a path outside of the archive"
_ENOUGH = 10  # symbols, from which on the ABI is sure
_MOST_LOST = 50


@check(level=Level.WARNING)
def missing_target_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake names a library or a directory of the archive that is not there.

    That is the location of an imported target, or a directory with headers, in a file of targets or
    of configuration (by its name: ``*Targets*.cmake``, ``*Config.cmake``). Only values under no
    condition count, and nothing is run: the family ``consumer`` asks CMake itself.

    Why: ``find_package`` stops with "The imported target … references the file … but this file
    does not exist", or the link fails.
    Fix: ship the file, or do not install the export that names it.
    Level: whether ``find_package`` of the archive comes to the line is what CMake finds out.
    """
    _demand_files(package)
    yield from _find_unread(package)
    present = _present(package)
    seen: set[tuple[str, str]] = set()
    for named in package.build_files.paths:
        path = named.path
        key = (named.file, path)
        if named.role not in _FILES or _is_outside(path) or path in present or key in seen:
            continue
        seen.add(key)
        sentence = f"line {named.line} names {path}, which is not there ({named.subject})"
        yield Problem(path=named.file, sentence=sentence)


@check(level=Level.WARNING)
def absolute_path_in_build_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake or pkg-config names an absolute path, or one outside of the archive.

    Where headers and libraries of a target are, and what variables with such names say. Default
    places in ``Find*.cmake``, and values under a condition, do not count.

    Why: that path is the build machine's; at the user's it is not there, or holds another version.
    Fix: let paths count from the file itself (``${CMAKE_CURRENT_LIST_DIR}``, ``${_IMPORT_PREFIX}``,
    pkg-config's ``${pcfiledir}``), and find dependencies by ``find_dependency``.
    Level: not every user comes to the line; the family ``consumer`` has CMake decide.
    """
    _demand_files(package)
    yield from _find_unread(package)
    is_windows = any(each.system == "windows" for each in package.claims.systems)
    groups: dict[tuple[str, int, str], list[NamedPath]] = {}
    told: set[tuple[str, str]] = set()
    for named in package.build_files.paths:
        known = (named.file, named.path) in told
        if _is_outside(named.path) and not known and not _is_harmless(named, is_windows=is_windows):
            told.add((named.file, named.path))
            groups.setdefault((named.file, named.line, named.subject), []).append(named)
    for (path, line, subject), group in groups.items():
        names = dict.fromkeys(_NOWHERE if each.path == "../" else each.path for each in group)
        yield Problem(
            path=path, sentence=f"line {line} names {name_first(list(names))} ({subject})"
        )


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "../")) or path[1:2] == ":"


def _is_harmless(named: NamedPath, *, is_windows: bool) -> bool:
    """What every system has there; what pkg-config itself replaces on Windows."""
    if named.path.startswith(_OF_SYSTEM):
        return True
    return is_windows and named.role is PathRole.VARIABLE and named.file.endswith(".pc")


@check
def cxx_abi_misreported(package: CppArchive) -> Iterator[Finding]:
    """The C++ ABI that an archive's name or its CMake files state is not that of its libraries.

    The name says ``cxx11-abi`` or ``pre-cxx11-abi``, the files _GLIBCXX_USE_CXX11_ABI; the
    libraries have std::__cxx11 in the names of their functions, or the std::string before that.

    Why: users' code is compiled for one std::string and linked with the other: undefined symbols.
    Fix: write the value that the libraries were compiled with into the configuration.
    Level: what users compile does not link.
    """
    stated = package.stated.cxx11_abi
    flags = package.build_files.abi_flags
    if stated is None and not flags:
        raise NotApplicable("neither its name nor its files state an ABI")
    symbols = _count_strings(package)
    found = None
    if max(symbols) >= _ENOUGH and min(symbols) * 20 < max(symbols):
        found = symbols[0] > symbols[1]
    if found is None:
        counts = "{} symbols with the new std::string, {} with the old".format(*symbols)
        yield NotInspected(sentence=f"the ABI of its libraries is not clear: {counts}")
    elif stated is not None and stated is not found:
        name = "cxx11-abi" if stated else "pre-cxx11-abi"
        sentence = f"its name says {name}, its libraries have the {_spell(found)}"
        yield Problem(sentence=sentence)
    for flag in flags:
        if found is not None and flag.value is not found:
            value = int(flag.value)
            sentence = f"line {flag.line} states _GLIBCXX_USE_CXX11_ABI={value}"
            yield Problem(
                path=flag.file, sentence=f"{sentence}; its libraries have the {_spell(found)}"
            )


def _spell(new: bool) -> str:
    return "new std::string (std::__cxx11)" if new else "old std::string"


def _count_strings(package: CppArchive) -> tuple[int, int]:
    """How many symbols of its own have the new std::string, and how many the old."""
    counts = Counter[bool]()
    for archive in package.objects_of(StaticArchive):
        counts[True] += archive.strings.new
        counts[False] += archive.strings.old
    for item in package.objects_of(ElfFile):
        if item.kind is Kind.SHARED:
            for name in item.exports.each_name():
                if name[:3] == "_ZN" and name[3:4] != "S":
                    if "cxx11" in name:
                        counts[True] += 1
                    elif ("Ss" in name or "St4list" in name) and names_old_abi(name):
                        counts[False] += 1
    return counts[True], counts[False]


@check(level=Level.WARNING)
def missing_included_header(package: CppArchive) -> Iterator[Finding]:
    """A header includes another one that belongs to the archive and is not there.

    Only what stands under no condition counts, and only what no other package could have: a path
    relative to the header, or one in a folder that the archive has below ``include``.

    Why: whoever includes the header gets "No such file or directory".
    Fix: install the header, or leave out the one that includes it.
    Level: most users do not include that header.
    """
    headers = package.headers
    for text in headers.unread:
        path, _, reason = text.partition(": ")
        yield NotInspected(path=path, sentence=reason)
    if not headers.count and not headers.unread:
        raise NotApplicable("it has no headers")
    for lost in headers.lost[:_MOST_LOST]:
        yield Problem(path=lost.path, sentence=f"includes {lost.included}, which is not there")
    if (more := len(headers.lost) - _MOST_LOST) > 0:
        yield Problem(path="include", sentence=f"{more} more headers include what is not there")


def _demand_files(package: CppArchive) -> None:
    found = package.build_files
    if not (found.paths or found.unread or package.cmake_packages):
        raise NotApplicable("it has no files for CMake or pkg-config")


def _find_unread(package: CppArchive) -> Iterator[NotInspected]:
    for each in package.build_files.unread:
        yield NotInspected(path=each.file, sentence=f"it cannot be read: {each.reason}")


def _present(package: CppArchive) -> frozenset[str]:
    """Its files, what links stand for, and their folders."""
    paths: set[str] = {"."}
    for member in package.members:
        path = member.path.removesuffix("/")
        while path and path not in paths:
            paths.add(path)
            path = path.rpartition("/")[0]
    return frozenset(paths)
