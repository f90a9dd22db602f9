"""The files that an archive has for CMake and pkg-config, and its headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import ElfFile, Finding, Kind, Level, NotInspected, Problem, StaticArchive
from binary_checks.model.cmake import NamedPath, PathRole
from binary_checks.model.cpp_archive import CppArchive
from binary_checks.model.mangling import names_old_abi
from binary_checks.wording.phrases import name_first

_OF_SYSTEM = ("/System/Library/",)
"""What every macOS has at this place."""
_FILES = frozenset({PathRole.CHECKED, PathRole.LOCATION, PathRole.INCLUDE})
_FRAMEWORK = ".sdk/System/Library/Frameworks/"
_NOWHERE = "a path outside of the archive"
_ENOUGH = 10  # symbols, from which on the ABI is sure
_MOST_LOST = 50


@check
def missing_target_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake names a library or a directory of the archive that is not there.

    That is the location of an imported target, a file that CMake looks for before it goes on, or a
    directory with headers. The files are read without running CMake, from each ``*Config.cmake``
    on as ``find_package`` follows them.

    Why: ``find_package`` stops with "The imported target … references the file … but this file
    does not exist", or the link fails.
    Fix: ship the file, or do not install the export that names it.
    Level: users' projects do not configure. Only a warning where no ``find_package`` of the archive
    comes to the line, or under a condition that depends on the user's system.
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
        sentence = f"line {named.line} names {path}, which is not there ({_describe(named)})"
        yield Problem(path=named.file, sentence=f"{sentence}; {_reach(named)}", level=_level(named))


@check
def absolute_path_in_build_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake or pkg-config names an absolute path, or one outside of the archive.

    Where headers and libraries of a target are, and what variables with such names say. Default
    places in ``Find*.cmake``, and what a condition chooses for another system, do not count.

    Why: that path is the build machine's; at the user's it is not there, or holds another version.
    Fix: let paths count from the file itself (``${CMAKE_CURRENT_LIST_DIR}``, ``${_IMPORT_PREFIX}``,
    pkg-config's ``${pcfiledir}``), and find dependencies by ``find_dependency``.
    Level: targets do not compile or link. A variable, which not everybody reads, what no
    ``find_package`` of the archive comes to, pkg-config's files, of which users can set the prefix,
    and frameworks of another Xcode's SDK, which linkers find in their own, are warnings.
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
    for (path, line, _), group in groups.items():
        first = group[0]
        names = dict.fromkeys(_NOWHERE if each.path == "../" else each.path for each in group)
        sentence = f"line {line} names {name_first(list(names))} ({_describe(first)})"
        by_pkg_config = path.endswith(".pc")
        frameworks = all(_FRAMEWORK in each.path for each in group)
        harmful = first.role is not PathRole.VARIABLE and not by_pkg_config and not frameworks
        yield Problem(
            path=path,
            sentence=sentence if by_pkg_config else f"{sentence}; {_reach(first)}",
            level=_level(first) if harmful else Level.WARNING,
        )


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "../")) or path[1:2] == ":"


def _is_harmless(named: NamedPath, *, is_windows: bool) -> bool:
    """What every system has there; what only a condition sets; what pkg-config itself replaces."""
    by_pkg_config = named.file.endswith(".pc")
    if named.path.startswith(_OF_SYSTEM):
        return True
    if named.role is not PathRole.VARIABLE:
        return False
    return is_windows if by_pkg_config else not named.certain


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
        if each.reached:
            yield NotInspected(path=each.file, sentence=f"it cannot be followed: {each.reason}")


def _present(package: CppArchive) -> frozenset[str]:
    """Its files, what links stand for, and their folders."""
    paths: set[str] = {"."}
    for member in package.members:
        path = member.path.removesuffix("/")
        while path and path not in paths:
            paths.add(path)
            path = path.rpartition("/")[0]
    return frozenset(paths)


def _describe(named: NamedPath) -> str:
    return f"a file of {named.subject}" if named.role is PathRole.CHECKED else named.subject


def _reach(named: NamedPath) -> str:
    if not named.reached:
        return "no find_package() of the archive comes to it"
    packages = _join(named.reached)
    return f"find_package({packages}) comes to it{'' if named.certain else ' on some systems'}"


def _join(names: Iterable[str]) -> str:
    return " or ".join(names)


def _level(named: NamedPath) -> Level:
    return Level.ERROR if named.certain else Level.WARNING
