"""Whether the loader finds the libraries that objects need on a user's system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unloaded
from binary_checks.knowledge.library_names import (
    find_users_own,
    is_debug_runtime,
    is_driver_library,
    is_grafted_name,
    is_next_to_python_exe,
    is_redistributable,
    may_be_required,
)
from binary_checks.knowledge.loading import downgrade, is_for_others, name_shared_cause, soften
from binary_checks.knowledge.missing_libraries import report_missing_libraries
from binary_checks.knowledge.python_libraries import is_python_dll
from binary_checks.knowledge.sanitizers import find_sanitizer
from binary_checks.model import (
    Directories,
    Edge,
    ElfFile,
    Finding,
    Format,
    Kind,
    Level,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    Problem,
    Rule,
    StaticArchive,
    TargetSystem,
    directories,
    expand,
    format_of_name,
    is_extension,
    parse_extension_name,
    shorten,
)
from binary_checks.wording.problem_lines import (
    OF_CPU_LABEL,
    is_of_other_architecture,
    of_library,
    of_need,
)
from binary_checks.wording.sentences import (
    Owners,
    choose_search_path_command,
    format_directories,
    format_found_by_load_order,
    format_searched,
    format_unreachable,
    is_executable,
    list_needed,
    name_first,
    name_needed,
    name_places,
    owners,
    report_unsearched_library,
)


@check
def missing_library(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A needed library is neither in the package nor promised by its tag.

    If a required distribution may have the library, by its name or by the folder that is searched,
    its wheel must be given (``--binary-with``). A library of NVIDIA's is missing if the package
    requires others of NVIDIA's distributions for the same CUDA, but none that leads to it. An
    executable lacks every library that no search path leads to, as nothing can have been loaded
    before it. If a repair tool put the library into the package and no object there finds it, as
    after a search path was dropped, every object that needs it lacks it.

    It is a warning, whose sentence states the reason, if users may never be affected: no import
    reaches the object (a plugin that native code opens by a computed name, a program that nothing
    starts, a helper that another program loads), the package's code starts the program with
    LD_LIBRARY_PATH, or the code that imports or opens the object continues without it and the
    library was never in the package. Plugins of this kind that need libraries of the X Window
    System, such as Qt's platforms/libqxcb.so, stay errors. The libraries of torch and tensorflow
    are a warning if the package does not require these. So are the libraries of MPI, whose
    implementation users choose; those of vendors' software that users install themselves (Huawei's
    CANN, a Java runtime, Oracle's client) if the package bundles none of them; and all libraries on
    Windows if the package's code adds directories to the search that only running it would show.

    A driver of Windows (subsystem 1) finds what the kernel has: ``ntoskrnl.exe``, ``ndis.sys``.

    Other checks cover paths of the build machine (needed-name-with-slash, needed-outside-system),
    the libraries of NVIDIA's driver (driver-library-needed) and, on Windows, Python's DLLs and
    those of the Visual C++ runtime.

    Why: the loader refuses the object, and the import fails with "cannot open shared object file",
    "Library not loaded" or "DLL load failed".
    Fix: bundle it (``auditwheel repair``, ``delocate-wheel``, ``delvewheel repair``), link it
    statically, or require the distribution that provides it and give the object a search path that
    leads there. List libraries that users always have in the profile's ``system_libraries``, and
    directories that the package's code adds on Windows in its ``dll_directories``.
    Level: users who lack the library cannot load the file. If the library lies in the same folder
    on disk as a program that does not find it, it is a warning: the system may search that folder.
    """
    yield from find_unloaded(linkage, package)
    for other in linkage.refused:
        why = "it was left out; give --binary-with a version that fits"
        yield NotInspected(sentence=f"was given {other}: {why}")
    found = owners(package)
    lacking = [edge for edge in linkage.edges if not edge.delayed and _lacks(edge, linkage)]
    for cause, edges in _share_causes(lacking, linkage, package):
        searched = format_searched(edges[0], found, linkage.layout)
        if edges[0].unknown or not edges[0].elsewhere or _is_anothers(edges[0]):
            finding = report_missing_libraries(edges, linkage, package, searched, cause)
            # built-with-sanitizer, wrong-architecture and cuda-in-cpu-build state the cause
            unfit = find_sanitizer(edges[0].needed) or is_of_other_architecture(cause)
            if isinstance(finding, Problem) and (unfit or cause == OF_CPU_LABEL):
                finding = replace(finding, consequence=True)
            if isinstance(finding, Problem) and unfit:
                finding = replace(finding, command="", fix="")
            # A folder that code adds does not have what only a later Windows has (edge.partly).
            if linkage.format == Format.PE and package.loading_code and not edges[0].partly:
                code = package.layout.shorten(package.loading_code[0])
                # PyGreSQL adds the directory of the user's PostgreSQL, which it looks for in PATH.
                finding = soften(finding, f"{code} decides at run time where DLLs are looked for")
            yield downgrade(finding, linkage, *edges)
            continue
        for edge in edges:
            if is_executable(edge, found):
                finding = report_unsearched_library(edge, searched, linkage, cause)
                if package.claims.partial and isinstance(finding, Problem):
                    finding = replace(finding, level=Level.WARNING)
                yield downgrade(finding, linkage, edge)
    unreachable = [e for e in lacking if _is_out_of_reach(e, linkage, package, found)]
    for cause, edges in _share_causes(unreachable, linkage, package):
        searched = format_searched(edges[0], found, linkage.layout)
        sentence = format_unreachable(edges, linkage, searched)
        problem = Problem(
            path=edges[0].path,
            sentence=sentence,
            facts=list_needed(edges),
            cause=cause,
            command=choose_search_path_command(edges[0], linkage),
        )
        yield downgrade(problem, linkage, edges[0])


def _share_causes(
    edges: Iterable[Edge], linkage: Linkage, package: Package
) -> Iterator[tuple[str, list[Edge]]]:
    """Yield the needs of each object in groups with one cause; an undecided need is alone.

    Needs that one missing wheel may meet form a group: nobody gives torch for libc10.so alone.
    Libraries that are loaded earlier by something else and libraries that nothing loads form
    separate groups, as their levels differ.
    """
    known = cache(partial(directories, package))
    shared: dict[tuple[str, ...], list[Edge]] = {}
    for edge in edges:
        to_come = bool(edge.may_come_with) and not edge.unknown and not edge.partly
        to_come = to_come and (not edge.elsewhere or _is_anothers(edge))
        shared_cause = name_shared_cause(edge, linkage, package) or of_need(
            edge, known, linkage.layout
        )
        cause = "" if to_come else shared_cause
        alone = edge.unknown or edge.partly or (edge.may_come_with and not to_come)
        met = "loaded before" if edge.resolved else ""
        key = (cause, edge.path, edge.architecture, edge.root, met, edge.needed if alone else "")
        shared.setdefault(key, []).append(edge)
    for (cause, *_), needs in shared.items():
        yield cause, needs


def _lacks(edge: Edge, linkage: Linkage) -> bool:
    """Whether nothing was found for a need that these checks report."""
    # a renamed library can only be the package's own, not the driver's
    of_driver = is_driver_library(edge.needed) and not is_grafted_name(edge.needed)
    if edge.resolved is not None or edge.proven or edge.weak or of_driver:
        return False
    if linkage.format == Format.MACHO:
        return not edge.needed.startswith("/") or bool(edge.unknown or edge.partly)
    if linkage.format == Format.PE:
        reported_elsewhere = (
            is_python_dll,
            is_redistributable,
            is_debug_runtime,
            is_next_to_python_exe,
        )
        return not any(recognises(edge.needed) for recognises in reported_elsewhere)
    return "/" not in edge.needed


def _is_anothers(edge: Edge) -> bool:
    """Whether a required wheel, not the package, has the library under exactly that name.

    torchvision's libcudart.faf08d9a.so.13 has the soname libcudart.so.13, too, which torch
    provides.
    """
    if not edge.may_come_with:
        return False
    names = {path.rpartition("/")[2] for path in edge.elsewhere}
    return edge.needed.rpartition("/")[2] not in names


def _is_out_of_reach(edge: Edge, linkage: Linkage, package: Package, found: Owners) -> bool:
    """Whether the library was grafted into the package, and no object there finds it.

    Only the loader is meant to load such a library, and it does not find it.
    """
    meant = linkage.format != Format.PE or _is_module(edge.root or edge.path, package)
    there = meant and _is_found_by_load_order(edge, linkage, found)
    return there and edge.elsewhere[0] in linkage.orphans


@check
def missing_delayed_library(
    linkage: Linkage, package: Package, *, optional: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library that is loaded at the first call is missing, or lacks the function.

    Code that delays the loading of a driver's library, which exists on some machines only, checks
    for it first. ``optional`` names other libraries of this kind.

    Why: nothing fails at import; the first call ends the process (Windows: exception 0xC06D007E or
    0xC06D007F), perhaps in code that tests never reach.
    Fix: bundle the library, or build without the feature that needs it.
    Level: the first call ends the user's process.
    """
    yield from find_unloaded(linkage, package)
    found = owners(package)
    delayed = [edge for edge in linkage.edges if edge.delayed]
    if not delayed:
        raise NotApplicable("no library is loaded at the first call")
    for edge in delayed:
        # Libraries of newer systems are delayed on purpose; code checks first whether ext-ms-*
        # exist.
        expected = edge.needed.lower() in optional or not may_be_required(edge.needed)
        expected = expected or bool(edge.partly) or edge.needed.startswith("ext-")
        if not expected and not edge.elsewhere and _lacks(edge, linkage):
            searched = format_searched(edge, found, linkage.layout)
            cause = of_library(edge.needed)
            finding = report_missing_libraries((edge,), linkage, package, searched, cause)
            yield downgrade(finding, linkage, edge)
    for item in linkage.unresolved:
        if item.delayed:
            sentence = (
                f"calls {item.name} of {item.library}, which does not have it: the first call ends "
                "the process"
            )
            yield downgrade(
                Problem(path=item.path, sentence=sentence, facts=(item.name, item.library)), linkage
            )


@check
def load_order_dependent(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A needed library is found only if something else was loaded first.

    On Windows only the directory of the opened file is searched, and plugins in a folder of their
    own are meant to work that way: there only extension modules are judged. A library of a required
    wheel that was given counts as loaded if the package's Python code imports that wheel's modules,
    or modules of a wheel that requires it.

    Why: in another import order, or when the object is opened on its own, it is not found.
    Fix: give the object a search path to the library (``-Wl,-rpath,'$ORIGIN/...'``, on macOS
    ``@loader_path/...``; on Windows ``os.add_dll_directory`` in the package's ``__init__``), or
    have an ``__init__`` above it load the library first, with ctypes.
    Level: users who import that module first cannot import it. It is a warning if everything that
    leads to the object loads the library before it, or if the package's Python code may do so
    because it contains one of the words ``ctypes``, ``cffi``, ``dlopen``, ``CDLL``,
    ``load_library``, ``add_dll_directory``, ``RTLD_GLOBAL``, ``LD_LIBRARY_PATH`` or
    ``os.environ["PATH"]``: then the import decides (``import-fails``). If a fresh process imports
    the package, and has loaded both the object and the library, the need is noted only. Since
    Python 3.8, a directory in PATH is not searched for what an extension module needs (conda's
    Python searches it), nor for what ``ctypes.CDLL`` opens without ``winmode=0``. It is also a
    warning if no import reaches the object (see missing-library), or if it is not an extension
    module and lies in a folder on disk, which the system may search.
    """
    yield from find_unloaded(linkage, package)
    found = owners(package)
    stranded = (e for e in linkage.edges if _is_found_by_load_order(e, linkage, found))
    lucky = [e for e in stranded if not _is_out_of_reach(e, linkage, package, found)]
    lucky += filter(_is_by_order, linkage.edges)
    yield from _note_proven(linkage)
    lucky.sort(key=attrgetter("path", "architecture", "needed"))
    for cause, edges in _share_causes(lucky, linkage, package):
        edge = edges[0]
        sentence = format_found_by_load_order(
            edges, linkage, format_searched(edge, found, linkage.layout)
        )
        if linkage.format == Format.PE and not _is_module(edge.root or edge.path, package):
            yield Note(path=edge.path, sentence=sentence)
        else:
            library = package.claims.partial and not _is_module(edge.root or edge.path, package)
            less_severe = library or _is_for_others(edge, package)
            level = Level.WARNING if less_severe else _level_of(edge, linkage)
            yield downgrade(
                Problem(
                    path=edge.path,
                    sentence=sentence,
                    facts=list_needed(edges),
                    level=level,
                    cause=cause,
                    consequence=True,
                    command=choose_search_path_command(edge, linkage),
                ),
                linkage,
            )


def _note_proven(linkage: Linkage) -> Iterator[Note]:
    """Note which needs were met, in a process that imported the package, by an earlier load."""
    for edge in linkage.edges:
        if edge.proven:
            sentence = (
                f"does not find {edge.needed} itself, but importing the package loads "
                f"{linkage.layout.shorten_label(edge.proven)} before it"
            )
            yield Note(path=edge.path, sentence=sentence)


def _level_of(edge: Edge, linkage: Linkage) -> Level:
    """Return a warning if the library is, or may be, loaded before the object."""
    before = edge.resolved or linkage.loading_code or find_users_own(edge.needed)
    return Level.WARNING if before else Level.ERROR


def _is_for_others(edge: Edge, package: Package) -> bool:
    """Whether both the object and the library that it needs serve other packages, as daal's do."""
    if not is_for_others(edge.path, package):
        return False
    places = edge.elsewhere or (edge.resolved or "",)
    return all(is_for_others(place.rpartition(":")[2], package) for place in places)


def _is_found_by_load_order(edge: Edge, linkage: Linkage, found: Owners) -> bool:
    """Whether a library of the layout is found only if something else has loaded it."""
    exists_elsewhere = bool(edge.elsewhere) and not edge.delayed and _lacks(edge, linkage)
    here = exists_elsewhere and not edge.unknown and not _is_anothers(edge)
    return here and not is_executable(edge, found)


def _is_module(path: str, package: Package) -> bool:
    return path in package.derive(_find_modules)


def _find_modules(package: Package) -> frozenset[str]:
    return frozenset(item.path for item in package.objects if is_extension(item))


def _is_by_order(edge: Edge) -> bool:
    by_order = bool(edge.resolved) and edge.rule is Rule.LOADED and edge.shadowed is None
    return by_order and not edge.proven


@check
def missing_search_directory(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A search path names a missing directory, and the library is found only by luck.

    Why: the path was meant to lead to the library, which is now found only through load order.
    Fix: correct the path; it is relative to the location of the installed object.
    Level: users who import that module first cannot import it. It is a warning if everything that
    leads to the object loads the library before it, or the package's own code may do so (see
    load-order-dependent), or if no import reaches it (see missing-library).
    """
    if linkage.format == Format.PE:
        raise NotApplicable("on Windows, objects name no directories")
    yield from find_unloaded(linkage, package)
    missed = (e for e in linkage.edges if not (e.resolved or e.proven) and e.elsewhere)
    lucky = [*filter(_is_by_order, linkage.edges), *missed]
    known = directories(package) if lucky else Directories(())
    missing: dict[tuple[str, ...], list[str]] = {}
    for cause, edges in _share_causes(lucky, linkage, package):
        searched = edges[0].searched
        if searched not in missing:
            missing[searched] = [directory for directory in searched if directory not in known]
        wrong = missing[searched]
        if wrong:
            what = "the library is" if len(edges) == 1 else "the libraries are"
            sentence = (
                f"looks for {name_needed(edges)} in {format_directories(wrong, linkage.layout)}, "
                f"which the package does not have; {what} {name_places(edges, linkage)}"
            )
            problem = Problem(
                path=edges[0].path,
                sentence=sentence,
                facts=list_needed(edges),
                level=_level_of(edges[0], linkage),
                cause=cause,
                command=choose_search_path_command(edges[0], linkage),
            )
            yield downgrade(problem, linkage)


@check
def needed_name_with_slash(library: ElfFile) -> Iterator[Finding]:
    """A needed library is named by a path.

    Why: the loader opens the path as written, relative to the current directory, without a search.
    Fix: give the library a soname (``-Wl,-soname,libx.so.1``) before linking to it, or link with
    ``-L`` and ``-l`` rather than with the file.
    Level: the file does not load, or loads what somebody put into the current directory.
    """
    for need in library.needed:
        if "/" in need.name and expand(need.name, library) is None:
            opened = "the loader opens it relative to the current directory"
            yield Problem(
                path=library.path,
                sentence=f"needs {shorten(need.name)}, a path: {opened}",
                facts=(need.name,),
            )


@check
def libpython_linked(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs libpython from the interpreter.

    Why: PEP 513 forbids it: many interpreters are built without a shared libpython, and the object
    does not load there; on macOS the path of a Python.framework is valid for one installation only.
    Fix: do not link it; use ``python3-config`` without ``--embed``, CMake's ``Development.Module``
    or, on macOS, ``-undefined dynamic_lookup``.
    Level: users whose Python has no shared libpython cannot import the package. It is a warning if
    no import reaches the object (see missing-library).
    """
    if linkage.format == Format.PE:
        raise NotApplicable("on Windows every extension module needs Python's DLL")
    if any(claim.system in {"android", "ios"} for claim in package.claims.systems):
        raise NotApplicable("on Android and iOS extension modules need Python's library")
    yield from find_unloaded(linkage, package)
    # In an environment the interpreter itself is among the objects, and needs its own library.
    programs = {item.path for item in package.objects if item.kind is Kind.EXECUTABLE}
    spared = programs if package.claims.partial else frozenset[str]()
    for edge in linkage.edges:
        if edge.rule is Rule.PYTHON and edge.path not in spared:
            sentence = (
                f"needs {edge.needed}: a Python that was built without it cannot load the file"
            )
            yield downgrade(
                Problem(path=edge.path, sentence=sentence, facts=(edge.needed,)), linkage
            )


@check
def foreign_libc(
    library: ElfFile, target: TargetSystem, linkage: Linkage | Package
) -> Iterator[Finding]:
    """An object of a musllinux wheel needs glibc.

    Why: musl treats the name as its own, and functions that only glibc has are missing at run time.
    Fix: build in a musllinux image.
    Level: functions that musl lacks fail at import or at the first call. It is a warning if the
    package has the same library for musl, too (``libx-linux-gnu.so``, ``libx-linux-musl.so``).
    """
    if target.libc != "musl" and not any(t.startswith("musllinux") for t in target.unjudged):
        return
    own = (
        need.name
        for need in library.needed
        if re.fullmatch(r"lib(?:c|m|pthread|dl|rt|util)\.so\.\d|ld-linux.*", need.name)
    )
    if names := tuple(dict.fromkeys(own)):
        belong = "belongs" if len(names) == 1 else "belong"
        problem = Problem(
            path=library.path,
            sentence=f"needs {name_first(names)}, which {belong} to glibc: a musllinux wheel must "
            "use musl's libc",
            facts=names,
        )
        yield downgrade(problem, linkage)


# Whether a loader accepts an object at all, before it searches for anything.

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_FOR_DEBUGGERS = re.compile(r"(?:\A|/)(?:\.debug|debug|[^/]*\.dSYM)/")


@check
def unloadable_object(library: ObjectFile) -> Iterator[Finding]:
    """An engine or a loader refuses an object because of its segments, versions or sections.

    A WebAssembly module has each section once at most, in one order, and begins with the section
    that dynamic loaders read. The segments of an ELF file are aligned (``strip`` after ``patchelf``
    moves them), and it needs the libraries whose versions it needs (``patchelf --remove-needed``
    leaves these). Headers that contradict the file are reported by malformed-object; whatever else
    loaders refuse is seen when the package is imported.

    Why: the import fails on every system.
    Fix: look for a tool that damaged the file while rewriting it, and build it again.
    Level: no user can load the file.
    """
    if library.kind in _LOADED:
        yield from library.refusals


@check
def wrong_object_type(library: ObjectFile) -> Iterator[Finding]:
    """A file is named like a library or extension module but is another kind of object.

    This covers relocatable objects, programs, core dumps, static archives and separate debug
    information under a name that ends in ``.so``, ``.pyd``, ``.dll`` or ``.dylib``, and ELF files
    whose header names no machine. A program of .NET is a library, too: ``dotnet demo.dll`` runs it,
    on every system.

    Why: linkers and debuggers read such files; a loader refuses them, and the import fails.
    Fix: link the library (``-shared``, ``-bundle``, ``/DLL``), or rename the file.
    Level: no user can load the file.
    """
    if format_of_name(library.path) is None or _is_meant_so(library):
        return
    if library.kind is Kind.OTHER and library.architecture == "machine-0":
        yield Problem(
            path=library.path,
            sentence="its header names no machine (e_machine is 0), so that no loader accepts it",
            fix="build the file again, and check the tools that rewrite it afterwards",
        )
        return
    kind = "static archive" if isinstance(library, StaticArchive) else library.kind.value
    yield f"is named like a library, but no loader accepts this kind of file: {kind}"


def _is_meant_so(library: ObjectFile) -> bool:
    if library.kind is Kind.EXECUTABLE:
        if isinstance(library, PeFile):
            return library.managed and parse_extension_name(library.path) is None
        # An ELF library may have an interpreter: glibc's own do, to print their version when run.
        return isinstance(library, ElfFile) and library.opens
    if library.kind is Kind.DEBUG:
        return bool(_FOR_DEBUGGERS.search(library.path))
    if library.kind is Kind.DEVICE:
        name = parse_extension_name(library.path)
        return name is None or not (name.version or name.stable)
    return library.kind is Kind.SHARED and not isinstance(library, StaticArchive)
