"""Whether an archive of C++ libraries can be unpacked anywhere and built against."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import list_unread, make_gap
from binary_checks.knowledge.python_libraries import find_python_symbols
from binary_checks.model import (
    CppArchive,
    ElfFile,
    Finding,
    Format,
    Kind,
    Level,
    NamedPath,
    NotInspected,
    PathRole,
    Problem,
    StaticArchive,
    names_old_abi,
)
from binary_checks.wording.sentences import name_first

# The archive's files for CMake and pkg-config.

_OF_SYSTEM = ("/System/Library/",)
"""Directories that every macOS has."""
_FILES = frozenset({PathRole.LOCATION, PathRole.INCLUDE})
_NOWHERE = "a path outside of the archive"
_ENOUGH = 10  # symbols that make the ABI certain


@check(level=Level.WARNING)
def missing_target_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake names a library or a directory of the archive that is not there.

    The check reads files named ``*Targets*.cmake`` or ``*Config.cmake``. In them it compares the
    locations of imported targets and their header directories with the archive. Only values
    outside of conditions count, and nothing is run: the family ``consumer`` asks CMake itself.

    Why: ``find_package`` stops with "The imported target … references the file … but this file does
    not exist", or the link fails.
    Fix: ship the file, or do not install the export that names it.
    Level: only CMake knows whether ``find_package`` executes the line that names the file.
    """
    _require_files(package)
    yield from _find_unread_files(package)
    present = _present(package)
    seen: set[tuple[str, str]] = set()
    for named in package.build_files.paths:
        path = named.path
        key = (named.file, path)
        if named.role not in _FILES or _is_outside(path) or path in present or key in seen:
            continue
        seen.add(key)
        sentence = f"line {named.line} names {path}, which is not there ({named.subject})"
        yield Problem(path=named.file, sentence=sentence, facts=(path,))


@check(level=Level.WARNING)
def absolute_path_in_build_file(package: CppArchive) -> Iterator[Finding]:
    """A file for CMake or pkg-config names an absolute path, or a path outside of the archive.

    The check reads the paths of targets' headers and libraries, and variables whose names say that
    they hold such paths. Default paths in ``Find*.cmake``, and values under a condition, do not
    count.

    Why: the path belongs to the build machine; on the user's it does not exist, or holds another
    version.
    Fix: make paths relative to the file itself (``${CMAKE_CURRENT_LIST_DIR}``,
    ``${_IMPORT_PREFIX}``, pkg-config's ``${pcfiledir}``), and find dependencies by
    ``find_dependency``.
    Level: not every user's build executes the line that names the path; the family ``consumer`` has
    CMake decide.
    """
    _require_files(package)
    yield from _find_unread_files(package)
    is_windows = any(each.system == "windows" for each in package.claims.systems)
    groups: dict[tuple[str, int, str], list[NamedPath]] = {}
    reported: set[tuple[str, str]] = set()
    for named in package.build_files.paths:
        known = (named.file, named.path) in reported
        if _is_outside(named.path) and not known and not _is_harmless(named, is_windows=is_windows):
            reported.add((named.file, named.path))
            groups.setdefault((named.file, named.line, named.subject), []).append(named)
    for (path, line, subject), group in groups.items():
        names = dict.fromkeys(_NOWHERE if each.path == "../" else each.path for each in group)
        yield Problem(
            path=path,
            sentence=f"line {line} names {name_first(list(names))} ({subject})",
            facts=(next(iter(names)), subject),
        )


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "../")) or path[1:2] == ":"


def _is_harmless(named: NamedPath, *, is_windows: bool) -> bool:
    """Whether every system has the path, or pkg-config itself replaces it on Windows."""
    replaced = is_windows and named.role is PathRole.VARIABLE and named.file.endswith(".pc")
    return replaced or named.path.startswith(_OF_SYSTEM)


@check
def cxx_abi_misreported(package: CppArchive) -> Iterator[Finding]:
    """The name or the CMake files of an archive state another C++ ABI than its libraries have.

    A name states it by ``cxx11-abi`` or ``pre-cxx11-abi``, a file by _GLIBCXX_USE_CXX11_ABI. The
    names of the libraries' functions contain std::__cxx11, or the older std::string.

    Why: users' code is compiled for one std::string and linked with the other: undefined symbols.
    Fix: write the value that the libraries were compiled with into the configuration.
    Level: what users compile does not link.
    """
    stated = package.stated.cxx11_abi
    flags = package.build_files.abi_flags
    if stated is None and not flags:
        raise NotApplicable("neither its name nor its files state an ABI")
    missing = (each for each in list_unread(package) if each.format == Format.ARCHIVE)
    yield from map(make_gap, missing)
    for item in package.objects_of(StaticArchive):
        if item.unread:
            yield NotInspected(path=item.path, sentence=item.unread)
    symbols = _count_strings(package)
    found = None
    if max(symbols) >= _ENOUGH and min(symbols) * 20 < max(symbols):
        found = symbols[0] > symbols[1]
    if found is None:
        counts = "{} symbols with the new std::string, {} with the old".format(*symbols)
        yield NotInspected(sentence=f"the ABI of its libraries is not clear: {counts}")
    elif stated is not None and stated is not found:
        name = "cxx11-abi" if stated else "pre-cxx11-abi"
        yield Problem(
            sentence=f"its name says {name}, but its libraries have the {_format_abi(found)}"
        )
    for flag in flags:
        if found is not None and flag.value is not found:
            yield Problem(
                path=flag.file,
                sentence=f"line {flag.line} states _GLIBCXX_USE_CXX11_ABI={int(flag.value)}; "
                f"its libraries have the {_format_abi(found)}",
            )


def _format_abi(new: bool) -> str:
    return "new std::string (std::__cxx11)" if new else "old std::string"


def _count_strings(package: CppArchive) -> tuple[int, int]:
    """Return how many of the archive's symbols have the new std::string, and how many the old."""
    counts = Counter[bool]()
    for archive in package.objects_of(StaticArchive):
        counts[True] += archive.strings.new
        counts[False] += archive.strings.old
    for item in package.objects_of(ElfFile):
        if item.kind is Kind.SHARED:
            for name in item.exports.each_name():
                if name.startswith("_ZN") and not name.startswith("_ZNS"):
                    if "cxx11" in name:
                        counts[True] += 1
                    elif ("Ss" in name or "St4list" in name) and names_old_abi(name):
                        counts[False] += 1
    return counts[True], counts[False]


def _require_files(package: CppArchive) -> None:
    found = package.build_files
    if not (found.paths or found.unread or package.cmake_packages):
        raise NotApplicable("it has no files for CMake or pkg-config")


def _find_unread_files(package: CppArchive) -> Iterator[NotInspected]:
    for each in package.build_files.unread:
        yield NotInspected(path=each.file, sentence=f"it cannot be read: {each.reason}")


def _present(package: CppArchive) -> frozenset[str]:
    """Return the paths of the archive's files, links and folders."""
    paths = {".", ""}
    for member in package.members:
        path = member.path.removesuffix("/")
        while path not in paths:
            paths.add(path)
            path = path.rpartition("/")[0]
    return frozenset(paths)


# Parts that an archive of C++ libraries must have, and parts that only packages for Python need.

_LIBTORCH = "libtorch"
_OF_LIBTORCH = {
    "share/cmake/Torch/TorchConfig.cmake": "find_package(Torch) does not find it",
    "build-version": "nobody can tell which version it is",
    "build-hash": "nobody can tell which commit it was built from",
}
_HEADER = (".h", ".hh", ".hpp", ".hxx", ".cuh")
_LIBPYTHON = re.compile(
    r"(?:.*/)?(?:libpython[23][\d.]*[a-z]*(?:\.so[\d.]*|\.dylib)|Python3?|python3?\d*t?\.dll)",
    re.IGNORECASE,
)
_OF_A_PYTHON = re.compile(r"(?:lib(?:64)?/python\d\.\d+t?|Lib)/os\.py")
# except pretty-printers for debuggers
_FOR_PYTHON = re.compile(r"(?:lib)?torch_python\.|(?!.*-gdb\.py).*\.py[dic]?\Z")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@check
def missing_prefix_part(package: CppArchive) -> Iterator[Finding]:
    """An archive of C++ libraries lacks a part that users need to build with it.

    Every such archive needs headers below ``include``; libtorch also needs ``TorchConfig.cmake``,
    ``build-version`` and ``build-hash``.

    Why: the first ``#include`` or ``find_package`` of a user's project fails.
    Fix: install the missing part into the prefix before it is packed.
    Level: users cannot build with it. It is a warning if ``build-version`` or ``build-hash`` is
    missing: users can build, but cannot tell what they have. It is also a warning for all archives
    but libtorch, as they may be meant only for running programs.
    """
    files = [each for each in package.members if not each.is_directory]
    inside = [each.path for each in files if each.path.startswith("include/")]
    # some headers have no suffix, as Eigen/Core
    if not any(path.endswith(_HEADER) or "." not in path.rpartition("/")[2] for path in inside):
        sentence = "has no headers: nobody can compile against it"
        level = Level.ERROR if package.name == _LIBTORCH else Level.WARNING
        yield Problem(path="include", sentence=sentence, level=level)
    if package.name != _LIBTORCH:
        return
    present = {each.path for each in files}
    for path, harm in _OF_LIBTORCH.items():
        if path not in present:
            level = Level.ERROR if path.endswith(".cmake") else Level.WARNING
            yield Problem(path=path, sentence=f"is not in the archive: {harm}", level=level)


@check
def build_contradicts_name(package: CppArchive) -> Iterator[Finding]:
    """The contents of an archive contradict the name of its file.

    The check compares the version in ``build-version``, the commit in ``build-hash``, whether
    libraries are static or shared, and whether the build is a debug build.

    Why: users and mirrors choose by the name; the wrong variant fails at their first link.
    Fix: look for the step that names the file, or for a variable that the build left unset.
    Level: users get another build than they chose. A ``build-hash`` that names no commit is a
    warning.
    """
    # where the name states no version, it is that of the file build-version
    if not (package.version or package.build_hash or package.stated.linking):
        raise NotApplicable("neither its name nor its files say which build it is")
    stated = package.build_version
    if stated and package.version and _plain(stated) != _plain(package.version):
        sentence = f"says {stated}, but the file's name says {package.version}"
        yield Problem(path="build-version", sentence=sentence)
    if package.build_hash and not _COMMIT.fullmatch(package.build_hash):
        yield Problem(
            path="build-hash",
            sentence=f"says {package.build_hash[:60]!r}, which is not a commit",
            level=Level.WARNING,
        )
    yield from _judge_linking(package)


def _plain(version: str) -> str:
    return version.strip().lower().removeprefix("v").replace("-", "+")


def _judge_linking(package: CppArchive) -> Iterator[Finding]:
    """Compare the archive's libraries, static or shared, with the archive's name."""
    linking = package.stated.linking
    shared = [item for item in package.objects if item.kind is Kind.SHARED]
    static = [
        item
        for item in package.objects_of(StaticArchive)
        # an import library only names the functions of a DLL
        if all(each.format != "import" for each in item.members)
    ]
    unread = package.malformed or package.unread
    for sort, found in (("static", static), ("shared", shared)):
        if linking != sort or found:
            continue
        if unread:
            lack = f"it is not known whether it has {sort} libraries: some files were not read"
            yield NotInspected(sentence=lack)
        else:
            yield Problem(
                sentence=f"its name says {sort}, but it has no {sort} library", facts=(sort,)
            )


@check
def python_in_cpp_archive(package: CppArchive) -> Iterator[Finding]:
    """An archive of C++ libraries has parts that only a package for Python needs.

    Such parts are a library in ``lib`` or ``bin`` that needs libpython or symbols of Python;
    ``libtorch_python``; and Python code and extension modules in ``lib`` and ``include``.

    Why: a program that is linked with such a library needs a Python of exactly that version, or
    does not link at all; C++ users never use the other parts.
    Fix: leave out what was built for the wheel.
    Level: programs of C++ users have no Python. It is a warning for a library whose name says that
    it is for Python (``libboost_python311.so``), and for files that no program is linked with.
    """
    if any(_OF_A_PYTHON.fullmatch(member.path) for member in package.members):
        raise NotApplicable("a prefix with a Python of its own")
    for item in package.objects:
        if item.kind is not Kind.SHARED:
            continue
        linked = item.directory in {"lib", "lib64", "bin"} and "py" not in item.file_name.lower()
        level = Level.ERROR if linked else Level.WARNING
        if item.format == Format.ELF and any(_LIBPYTHON.fullmatch(n.name) for n in item.needed):
            continue  # libpython-linked reports it
        if needed := [need.name for need in item.needed if _LIBPYTHON.fullmatch(need.name)]:
            sentence = f"needs {name_first(needed)}, which C++ users do not have"
            yield Problem(path=item.path, sentence=sentence, facts=(needed[0],), level=level)
        elif asked := sorted(find_python_symbols(item).names):
            sentence = f"needs symbols of Python ({name_first(asked)}), which C++ users do not have"
            yield Problem(path=item.path, sentence=sentence, facts=(min(asked),), level=level)
    reported = {item.path for item in package.objects}
    for member in package.members:
        folder, _, last = member.path.rpartition("/")
        inside = f"{folder}/".startswith(("lib/", "include/"))
        if inside and member.path not in reported and _FOR_PYTHON.match(last):
            sentence = "is for Python alone"
            yield Problem(path=member.path, sentence=sentence, level=Level.WARNING)
