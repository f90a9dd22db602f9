"""Whether Windows loads a library, and which mitigations the library asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unread
from binary_checks.knowledge.library_names import (
    comes_with_python,
    find_known_shippers,
    is_debug_runtime,
    is_next_to_python_exe,
    is_redistributable,
    may_be_third_party,
    may_have,
    original_name,
    toolset_of,
)
from binary_checks.knowledge.loading import downgrade
from binary_checks.knowledge.python_libraries import (
    acceptable_dlls,
    are_for_any_python,
    is_of_one_version,
    is_python_dll,
)
from binary_checks.knowledge.tags import may_load
from binary_checks.model import (
    Edge,
    Finding,
    Format,
    Kind,
    Level,
    Linkage,
    NotInspected,
    Package,
    PeFile,
    Problem,
    PythonClaim,
    is_extension,
)
from binary_checks.wording.problem_lines import of_library
from binary_checks.wording.sentences import name_first

# Why DLLs and extension modules do not load, or do not work, on a user's Windows.

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_ZEROED_MUTEX = (14, 40)
"""The toolset since which a std::mutex starts as zeros, and the oldest runtime that can lock it."""
_CXX = "msvcp140.dll"
_LOCK = frozenset({"_Mtx_lock", "_Mtx_trylock"})
_INITIALISE = frozenset({"_Mtx_init", "_Mtx_init_in_situ"})
_FOR_DEBUGGING = re.compile(r"(?:^|[-_/.])debug(?:[-_/.]|$)")
_OLD_ASSEMBLY = re.compile(r"(?i)Microsoft\.VC([89]0)\.(?:CRT|MFC|OpenMP|ATL)")
_YEARS = {"80": "2005", "90": "2008"}
_HAS_RUNTIME = r"(?i)msvc[-_.]+runtime(?![\w.-])"
# LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR and _DEFAULT_DIRS: the library's own folder, and folders that
# were added.
_SEARCHES, _OWN_DIRECTORY, _USER_DIRECTORIES, _SYSTEM = 0x1F00, 0x100, 0x1400, 0x800


@check
def debug_runtime(
    library: PeFile,
    package: Package,
    linkage: Linkage | Package,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """A library is linked with the debug version of the C or C++ runtime.

    ``allowed`` names debug DLLs, in any case, that may be needed. A package that is not for Python
    may contain libraries for debugging if their names (``tbb12_debug.dll``) or its own name
    (``libtorch-win-shared-with-deps-debug``) say so: its users have Visual Studio.

    Why: those DLLs come with Visual Studio and must not be redistributed; the library does not load
    anywhere else.
    Fix: compile with ``/MD``, not ``/MDd``, and link the release builds of all libraries.
    Level: users without Visual Studio cannot load the file. It is a warning if they can do without
    the file, or if the package has those DLLs next to it.
    """
    accepted = {name.lower() for name in allowed}
    names = [item.name for item in library.needed if is_debug_runtime(item.name)]
    names = [name for name in names if name.lower() not in accepted]
    paths = (library.path.lower(), package.path.name.lower())
    for_debugging = not package.claims.pythons and any(map(_FOR_DEBUGGING.search, paths))
    if not names or for_debugging:
        return
    beside = package.derive(_list_neighbours).get(library.directory, frozenset())
    lacking = [name for name in names if name.lower() not in beside]
    fault = "which only Visual Studio has: it loads nowhere else"
    if not lacking:
        fault = "which the package has next to it, but Microsoft lets nobody redistribute"
    named = name_first(lacking or names)
    problem = Problem(
        path=library.path,
        sentence=f"needs {named} of the debug runtime, {fault}; build it as a release (/MD)",
        facts=tuple(names),
        level=Level.ERROR if lacking else Level.WARNING,
    )
    yield downgrade(problem, linkage) if lacking else problem


def _list_neighbours(package: Package) -> Mapping[str, frozenset[str]]:
    """Return the names of the package's object files by directory, in lower case."""
    found: dict[str, set[str]] = {}
    for item in package.objects:
        found.setdefault(item.directory, set()).add(item.file_name.lower())
    return {directory: frozenset(names) for directory, names in found.items()}


@check
def wrong_interpreter_library(library: PeFile, package: Package) -> Iterator[Finding]:
    """A library needs the DLL of a different Python than its file name or the wheel's tags say.

    Extension modules import Python's functions from a DLL by name: ``python313.dll``,
    ``python313t.dll`` for free-threaded builds, ``python3.dll`` for the stable ABI. A module that
    needs none of them may be correct: pycryptodome's modules are opened through cffi.

    Why: the other DLL is missing and the import fails with "DLL load failed"; or it exists, and two
    interpreters end up in one process.
    Fix: build with the headers and import libraries of the Python that the tag names; for abi3
    define ``Py_LIMITED_API``; for a free-threaded build define ``Py_GIL_DISABLED=1``.
    Level: the import fails, or loads a second interpreter.
    """
    wanted = acceptable_dlls(library, package.claims.pythons)
    needed = [item.name for item in library.needed if is_python_dll(item.name)]
    wrong = [name for name in needed if name.lower() not in wanted]
    if not wrong or not wanted:
        return
    bundled = package.derive(_find_folders)
    if are_for_any_python(package.claims.pythons) and package.derive(_is_for_several):
        return
    then = (
        f"but the Pythons it is for have {' and '.join(wanted)}: "
        "the import fails, or loads a second interpreter"
    )
    if are_for_any_python(package.claims.pythons) and wanted == ("python3.dll",):
        tags = name_first([each.name for each in package.claims.pythons])
        then = (
            f"which one version of Python has, but {tags} promises every version: correct the tag, "
            "or build for python3.dll, which all of them have"
        )
    for name in wrong:
        if name.lower() not in bundled:
            yield Problem(path=library.path, sentence=f"needs {name}, {then}", facts=(name,))


def _is_for_several(package: Package) -> bool:
    """Whether a package has modules for several Pythons, among which its own code chooses."""
    needed = {need.name.lower() for item in package.objects for need in item.needed}
    return len(list(filter(is_of_one_version, needed))) > 1


@check
def unbundled_runtime(package: Package, linkage: Linkage) -> Iterator[Finding]:
    """A wheel needs a DLL of the Visual C++ runtime that it does not ship.

    The check is on by default: of 219 projects with wheels for win_amd64, 83 need such DLLs, 38
    ship them all and 45 do not. A missing DLL is a fault even if most users have it: scipy, pyarrow
    and greenlet had it reported as a bug and fixed it. A project that leaves the runtime to its
    users and documents that, as torch and tensorflow do, accepts the problem with that reason.
    CPython ships vcruntime140.dll and vcruntime140_1.dll for its own process, and no other DLL of
    the runtime (2.7 ships msvcr90.dll instead, 3.3 and 3.4 msvcr100.dll); a program of the package
    does not even find these two. A copy in the package counts only if a search leads to it. A wheel
    whose tags claim no Windows is not judged: the Linux wheel of pydevd has DLLs that only its
    Windows code uses.

    Why: if no other program has installed the runtime (Windows Server, containers, a fresh machine)
    the import fails with "DLL load failed", and the message does not name the missing DLL.
    Fix: ``delvewheel repair`` bundles the DLLs; or link them statically (``/MT``), or require the
    distribution ``msvc-runtime``.
    Level: on a fresh Windows the import fails. It is a warning if only programs need the DLL, as
    most users have it, if a required distribution opens a copy of its own, as scikit-learn does, or
    if no import reaches the object (see missing-library).
    """
    if not may_load(package.claims.systems, Format.PE):
        raise NotApplicable("its tags claim no Windows")
    libraries = [item for item in package.objects_of(PeFile) if item.kind in _LOADED]
    absent = "no PE object that is loaded"
    yield from find_unread(package, found=bool(libraries), absent=absent, formats=(Format.PE,))
    if any(re.match(_HAS_RUNTIME, requirement) for requirement in package.claims.requirements):
        return
    if package.claims.partial:
        sentence = "it is not known whether the Visual C++ runtime ships with it: name the package"
        yield NotInspected(sentence=sentence)
        return
    present = {item.file_name.lower() for item in package.objects}
    present.update(e.needed.lower() for e in linkage.edges if e.resolved is not None or e.elsewhere)
    foreign = _find_foreign(linkage, present)
    pythons = {each.implementation for each in package.claims.pythons}
    programs = {item.path for item in libraries if item.kind is Kind.EXECUTABLE}
    started = _find_started(linkage, programs)
    yield from _judge_copies(package, linkage, programs)
    for name, users in _needs_of_runtime(libraries, package.claims.pythons).items():
        if name in present:
            continue
        # Objects that Python loads come first.
        paths = sorted(users, key=lambda path: (_rank(path, linkage), path in started))
        need = _format_need(name, paths)
        if foreign:
            sentence = f"{need}, which the wheel with {foreign} may ship: give that wheel"
            yield NotInspected(path=paths[0], sentence=f"{sentence} with --binary-with")
        elif pythons == {"graalpy"}:
            sentence = f"{need}, which GraalPy may ship: there is no data on it"
            yield NotInspected(path=paths[0], sentence=sentence)
        else:
            starts = started.issuperset(paths)
            effect = "it does not start" if starts else _format_effect(paths[0], linkage)
            lack = (
                f"which neither CPython nor the wheel ships: {effect} if the Visual C++ "
                "redistributable is not installed; bundle it (delvewheel repair)"
            )
            if name.startswith("libomp140"):
                lack = "which no Visual C++ redistributable installs: bundle it"
            sentence = f"{need}, {lack}"
            opener = next(iter(find_known_shippers(name, linkage.requirements)), "")
            if opener:
                sentence += f"; {opener}, which the package requires, opens a copy when imported"
            problem = Problem(
                path=paths[0],
                sentence=sentence,
                facts=(name,),
                cause=of_library(name),
                level=Level.WARNING if starts or opener else Level.ERROR,
            )
            needs = (edge for edge in linkage.edges if edge.path == paths[0])
            edge = next((edge for edge in needs if edge.needed.lower() == name), None)
            yield downgrade(problem, linkage, edge)
    yield from _judge_programs(linkage)
    yield from _judge_assemblies(libraries, package, linkage)


def _judge_assemblies(
    libraries: Iterable[PeFile], package: Package, linkage: Linkage
) -> Iterator[Finding]:
    """Report manifests that ask for a runtime of 2005 or 2008, which no new Windows has.

    An assembly may lie in the package, described by a manifest of its name.
    """
    shipped = {item.path.rpartition("/")[2].lower() for item in package.members}
    for library in libraries:
        if library.assemblies is None:
            sentence = "its resources, which may ask for assemblies, could not be read"
            yield NotInspected(path=library.path, sentence=sentence)
        for name in library.assemblies or ():
            version = _OLD_ASSEMBLY.fullmatch(name)
            if version is None or f"{name.lower()}.manifest" in shipped:
                continue
            runtime = f"msvcr{version[1]}.dll"
            if comes_with_python(runtime, library.path, package.claims.pythons):
                continue
            sentence = (
                f"its manifest asks for the assembly {name}: without the Visual C++ "
                f"redistributable of {_YEARS[version[1]]}, loading it fails (error 14001); build "
                "it without that manifest"
            )
            problem = Problem(
                path=library.path, sentence=sentence, facts=(name,), level=Level.WARNING
            )
            yield downgrade(problem, linkage)


def _judge_copies(
    package: Package, linkage: Linkage, programs: Collection[str]
) -> Iterator[Finding]:
    """Report a needed DLL if the package has a copy, but no search leads to the copy.

    libigl has bin/msvcp140.dll next to igl in site-packages. A DLL that one module finds is loaded
    for the other modules of the process, too. If only a program finds it, that helps no other
    process. If only a file finds it that nothing loads, such as msvcp140_1.dll in that bin, that
    helps nobody.
    """
    own = {item.path for item in package.objects}
    idle = _find_idle(package, linkage)
    found: set[str] = set()
    unreached: dict[str, dict[str, Edge]] = {}
    for edge in linkage.edges:
        if edge.delayed or edge.root in programs or not is_redistributable(edge.needed):
            continue
        if edge.resolved is not None or edge.unknown or not own.intersection(edge.elsewhere):
            found.update({edge.needed.lower()} if edge.root not in idle else ())
        else:
            unreached.setdefault(edge.needed.lower(), {}).setdefault(edge.path, edge)
    for name, edges in unreached.items():
        if name not in found:
            paths = sorted(edges, key=lambda path: (_rank(path, linkage), path.count("/")))
            copy = linkage.layout.shorten_label(edges[paths[0]].elsewhere[0])
            sentence = (
                f"{_format_need(name, paths)}, and the search does not lead to {copy}: "
                f"{_format_effect(paths[0], linkage)} if the Visual C++ redistributable is not "
                "installed; bundle it where it is found (delvewheel repair)"
            )
            problem = Problem(
                path=paths[0], sentence=sentence, facts=(name,), cause=of_library(name)
            )
            yield downgrade(problem, linkage)


def _find_started(linkage: Linkage, programs: Collection[str]) -> frozenset[str]:
    """Return the package's programs, and the objects that only these load."""
    loaded = {root in programs: set[str]() for root, _ in linkage.closures}
    for root, objects in linkage.closures:
        loaded[root in programs].update((root, *objects))
    return frozenset(loaded.get(True, set()) - loaded.get(False, set())).union(programs)


def _find_idle(package: Package, linkage: Linkage) -> frozenset[str]:
    """Return the DLLs that no import loads, as far as searches and the package's code show.

    An object may need such a DLL by name and not find it: then nothing loads it either.
    """
    unreached = {path for edge in linkage.edges if edge.resolved is None for path in edge.elsewhere}
    dlls = (item for item in package.objects if not is_extension(item))
    return frozenset(
        i.path for i in dlls if i.path in unreached or linkage.find_dispensable(i.path)
    )


def _format_need(name: str, paths: Collection[str]) -> str:
    verb = "does" if len(paths) == 2 else "do"
    return f"needs {name}" + (f" (so {verb} {len(paths) - 1} more)" if len(paths) > 1 else "")


def _format_effect(path: str, linkage: Linkage) -> str:
    """Return the effect of a missing DLL: the import fails, or only this file does not load."""
    return "this file does not load" if linkage.find_dispensable(path) else "the import fails"


def _judge_programs(linkage: Linkage) -> Iterator[Finding]:
    """Report DLLs that lie next to python.exe: a program that needs one does not find it there."""
    for edge in linkage.edges:
        if not is_next_to_python_exe(edge.needed) or edge.resolved is not None or edge.elsewhere:
            continue
        if edge.may_come_with:
            need = f"needs {edge.needed}, which {' or '.join(edge.may_come_with)} may ship"
            yield NotInspected(path=edge.path, sentence=f"{need}: give that with --binary-with")
        else:
            sentence = (
                f"needs {edge.needed}, which lies next to python.exe, where a program does not "
                "find it: the program starts only if the Visual C++ redistributable is installed; "
                "link the runtime statically (/MT)"
            )
            problem = Problem(
                path=edge.path,
                sentence=sentence,
                facts=(edge.needed,),
                cause=of_library(edge.needed),
                level=Level.WARNING,
            )
            yield downgrade(problem, linkage)


def _rank(path: str, linkage: Linkage) -> int:
    """Return a sort key: required objects first, objects that nothing reaches last."""
    found = linkage.find_dispensable(path)
    return 0 if found is None else 1 + found.complete


def _needs_of_runtime(
    libraries: Iterable[PeFile], pythons: tuple[PythonClaim, ...]
) -> Mapping[str, list[str]]:
    """Map each DLL of the runtime, in lower case, to the libraries that need it.

    A need does not count if one runtime DLL delays loading another (msvcp140 delays concrt140), or
    if the object is for a Python that ships the DLL.
    """
    needs: dict[str, list[str]] = {}
    for library in libraries:
        own = is_redistributable(original_name(library.file_name))
        for item in library.needed:
            met = (own and item.delayed) or comes_with_python(item.name, library.path, pythons)
            if is_redistributable(item.name) and not met:
                needs.setdefault(item.name.lower(), []).append(library.path)
    return needs


def _find_foreign(linkage: Linkage, present: Collection[str]) -> str:
    """Return a missing library that may come from a distribution not given; "" for none.

    missing-library does not report such a library either; libraries that no distribution ships are
    judged here.
    """
    edges = (edge for edge in linkage.edges if edge.resolved is None and not edge.delayed)
    # torch's and NVIDIA's wheels do not ship the runtime
    missing = (
        edge.needed
        for edge in edges
        if any(may_have(each, "msvcp140.dll") for each in edge.may_come_with)
    )
    names = (name for name in missing if name.lower() not in present and may_be_third_party(name))
    return next((name for name in names if not is_python_dll(name)), "")


@check
def outdated_redistributable(
    library: PeFile, package: Package, linkage: Linkage | Package
) -> Iterator[Finding]:
    """A bundled Visual C++ runtime is too old for the code that uses it.

    Only the one case known to crash is reported: as an error if the package's own code crashes; as
    a warning if the package loads a copy with the name ``msvcp140.dll``, which all packages of the
    process then get. A copy that delvewheel renamed has one user, and Python has its own
    vcruntime140.dll loaded before any package. Microsoft's rule that the runtime is as new as the
    newest toolset is not judged: healthy wheels break it.

    Why: since 14.40 (Visual Studio 2022 17.10) a std::mutex starts zero-initialised, and older
    versions of msvcp140.dll follow its null pointer: access violation at the first lock.
    Fix: bundle the redistributable of the toolset that compiles the code, or define
    ``_DISABLE_CONSTEXPR_MUTEX_CONSTRUCTOR``.
    Level: the process crashes. If only other packages can crash, because they find the copy loaded,
    it is a warning.
    """
    mine = toolset_of(library)
    if library.file_name.lower() == _CXX and isinstance(linkage, Linkage):
        yield from _judge_shared_copy(library, package, linkage)
    if mine is None or is_redistributable(original_name(library.file_name)):
        return
    for copy in _bundled_runtime(library, package):
        theirs = toolset_of(copy)
        if theirs is None:
            continue
        if theirs < _ZEROED_MUTEX <= mine and _locks_zeroed_mutex(library):
            yield Problem(
                path=library.path,
                sentence=f"built with toolset {_format_version(mine)}, uses {copy.file_name} of "
                f"{_format_version(theirs)}: locking a std::mutex crashes; bundle a runtime of "
                "14.40 or later",
                facts=(copy.file_name,),
            )


def _judge_shared_copy(library: PeFile, package: Package, linkage: Linkage) -> Iterator[Problem]:
    """Report an old msvcp140.dll that an import loads: Windows loads one DLL of each name.

    PySide2 5.15.2.1 has the DLL of toolset 14.24, panda3d 1.10.16 that of 14.0. A program of the
    package is a process of its own, and blosc 1.10.6 has only other DLLs of the runtime with it.
    """
    version = toolset_of(library) or (_ZEROED_MUTEX[0], 0)  # LLD states 14.0, as Microsoft in 2015
    others = {
        item.path
        for item in package.objects
        if item.kind is Kind.EXECUTABLE or is_redistributable(item.file_name)
    }
    users = (edge for edge in linkage.edges if edge.resolved == library.path)
    roots = (edge.root or edge.path for edge in users if not linkage.find_dispensable(edge.path))
    if version < _ZEROED_MUTEX and not others.issuperset(roots):
        yield Problem(
            path=library.path,
            sentence=f"is of toolset {_format_version(version)}, and packages imported later get "
            "it, too, by its name: locking a std::mutex crashes those built with 14.40 or later; "
            "bundle a newer one, or let delvewheel rename it",
            level=Level.WARNING,
        )


def _bundled_runtime(library: PeFile, package: Package) -> Iterator[PeFile]:
    """Yield the copies of the runtime that the library uses: only the newest of each name."""
    names = {item.name.lower() for item in library.needed}
    names = {name for name in names if is_redistributable(original_name(name))}
    for name in sorted(names):
        newest = package.derive(_find_newest_copies).get(name)
        if newest is not None:
            yield newest


def _find_newest_copies(package: Package) -> dict[str, PeFile]:
    """Return the newest DLL of each name in the package, by the name in lower case."""
    found: dict[str, PeFile] = {}
    for item in package.objects_of(PeFile):
        known = found.setdefault(item.file_name.lower(), item)
        if (toolset_of(item) or (0, 0)) > (toolset_of(known) or (0, 0)):
            found[item.file_name.lower()] = item
    return found


def _locks_zeroed_mutex(library: PeFile) -> bool:
    """Whether a library locks mutexes that no function of the runtime has initialised."""
    names = library.imports.names
    return bool(_LOCK & names) and not _INITIALISE & names


def _format_version(version: tuple[int, int]) -> str:
    return "{}.{}".format(*version)


def _find_folders(package: Package) -> dict[str, str]:
    """Return the folder of each DLL in the package, by the name in lower case."""
    return {item.file_name.lower(): item.directory for item in package.objects_of(PeFile)}


@check
def restricted_library_search(library: PeFile, package: Package) -> Iterator[Finding]:
    """A library makes Windows look for its DLLs only where the package has none.

    From Windows 10 on, ``/DEPENDENTLOADFLAG`` replaces the directories that Python requests.

    Why: with 0x800 only System32 is searched, and DLLs next to the library are not found: the
    import fails with "DLL load failed".
    Fix: link without the option or with ``/DEPENDENTLOADFLAG:0x1100``; delvewheel clears it.
    Level: users cannot import the module.
    """
    flags = library.dependent_load_flags
    if not flags & _SEARCHES or flags & _OWN_DIRECTORY:
        return
    bundled = package.derive(_find_folders)
    needed = (item.name for item in library.needed if not item.delayed)
    unfound = [name for name in needed if name.lower() in bundled]
    if flags & _USER_DIRECTORIES:
        added = package.dll_directories
        unfound = [name for name in unfound if bundled[name.lower()] not in added]
    if unfound:
        place = "System32 only" if flags & _SEARCHES == _SYSTEM else "other places"
        yield (
            f"is linked with /DEPENDENTLOADFLAG:{flags:#x} and looks in {place}: "
            f"it does not find the package's {name_first(unfound)}"
        )


# Missing mitigations, and signatures that Windows does not trust.

_RELOCATIONS_STRIPPED = 0x1
_HIGH_ENTROPY, _DYNAMIC_BASE, _NX = 0x20, 0x40, 0x100
_ARM = frozenset({"aarch64", "arm64ec", "arm64x", "armv7l"})
_32_BIT = frozenset({"i686", "armv7l"})


@check
def missing_mitigation(library: PeFile) -> Iterator[Finding]:
    """A library does not let Windows randomise its address, or prevent its data from executing.

    The flags DYNAMIC_BASE (ASLR), HIGH_ENTROPY_VA (64-bit ASLR) and NX_COMPAT are reported in one
    sentence, as they are mostly missing together: some linkers set none. Pure .NET code and
    resource-only files do not need them.

    Why: with code at a known address, an attacker can turn a bug in any library of the process into
    control of it; Windows on ARM does not load libraries without ASLR.
    Fix: link with ``/DYNAMICBASE /HIGHENTROPYVA /NXCOMPAT``, Microsoft's defaults; pass MinGW's ld
    ``--dynamicbase --high-entropy-va --nxcompat``, which many of its builds do not set by default.
    Level: Windows for ARM does not load a library without ASLR. Otherwise it is a warning: the
    library works, and many third-party DLLs are linked in this way.
    """
    lacking = _find_lacking(library)
    if not _runs_code(library) or not lacking:
        return
    movable = library.dll_characteristics & _DYNAMIC_BASE
    stripped = library.characteristics & _RELOCATIONS_STRIPPED
    level, effect = Level.WARNING, "bugs in the whole process are easier to exploit"
    if library.architecture in _ARM and (stripped or not movable):
        level, effect = Level.ERROR, "Windows on ARM does not load it"
    yield Problem(
        path=library.path,
        sentence=f"is linked without {', '.join(lacking)}: {effect}; link it with a newer linker, "
        "or with these flags",
        level=level,
    )


def _find_lacking(library: PeFile) -> list[str]:
    flags = library.dll_characteristics
    lacking = []
    if not flags & _DYNAMIC_BASE:
        lacking.append("DYNAMIC_BASE (ASLR)")
    elif library.characteristics & _RELOCATIONS_STRIPPED:
        lacking.append("the relocations that DYNAMIC_BASE (ASLR) needs")
    if not flags & _HIGH_ENTROPY and library.architecture not in _32_BIT:
        lacking.append("HIGH_ENTROPY_VA")
    if not flags & _NX:
        lacking.append("NX_COMPAT")
    return lacking


def _runs_code(library: PeFile) -> bool:
    """Whether a library has native code, as far as its headers show."""
    if library.kind not in _LOADED or library.managed:
        return False
    return bool(library.needed or len(library.exports)) or library.kind is Kind.EXECUTABLE


@check(level=Level.WARNING)
def writable_executable_section(library: PeFile) -> Iterator[Finding]:
    """A library has a section that is both writable and executable.

    Why: any bug that writes memory can overwrite code. Packers (UPX) need such a section, and virus
    scanners treat packed files as malware.
    Fix: do not pack the file; look for ``#pragma section(…, execute, write)``, the linker option
    ``/SECTION:name,EWR`` or assembler sections with such flags.
    Level: the library works; virus scanners may refuse it.
    """
    names = library.writable_executable
    if library.kind in _LOADED and names:
        yield f"has sections that are writable and executable: {', '.join(names)}"


@check
def broken_signature(library: PeFile) -> Iterator[Finding]:
    """A file was changed after it was signed.

    Only the digest in the Authenticode signature is compared; the certificate's trust is not
    checked. Tools that edit DLLs must remove or renew the signature, as delvewheel does: none of
    1,613 signed files in 292 published wheels has a broken one.

    Why: Windows reports the file as tampered with; policies (WDAC, AppLocker) and virus scanners
    refuse it.
    Fix: sign as the last step, or remove the signature before the file is edited.
    Level: policies and virus scanners refuse a file that looks tampered with.
    """
    if library.signed and library.signature_matches is None:
        yield NotInspected(sentence="is signed in a way that this version cannot verify")
    elif library.signed and not library.signature_matches:
        yield "does not match its Authenticode signature: it was changed after signing"
