"""Whether a package conforms to the ABIs of CPython and NumPy that it claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unjudged, find_unread
from binary_checks.knowledge.loading import soften
from binary_checks.knowledge.python_libraries import (
    find_init_fault,
    find_old_init_fault,
    find_python_symbols,
    is_for_java,
)
from binary_checks.model import (
    CodeNames,
    ExtensionName,
    Finding,
    Interpreter,
    Kind,
    Level,
    Linkage,
    Note,
    NotInspected,
    NumpyBuild,
    ObjectFile,
    Package,
    Problem,
    PythonClaim,
    TargetSystem,
    applicable,
    hpy_functions,
    init_function,
    is_extension,
    is_for_free_threads,
    is_python_2,
    parse_extension_name,
)
from binary_checks.safe_text import elide
from binary_checks.systems import free_threaded_symbols, stable_abi
from binary_checks.wording.problem_lines import OF_ENABLED_GIL, of_init_function
from binary_checks.wording.sentences import name_first

# Whether extension modules conform to the Python ABI that their names and tags promise.

_SHOWN = 5
# The function that Py_DECREF calls under the headers of a GIL-enabled build.
_WITH_GIL = "_Py_Dealloc"
_FIRST_FREE_THREADED = (3, 13)
_DANGER = "some Pythons lack it or changed it; define Py_LIMITED_API in every source"


@check
def unstable_symbol(package: Package, linkage: Linkage, target: TargetSystem) -> Iterator[Finding]:
    """An abi3 or abi3t extension uses symbols outside the stable ABI, or newer than its tag.

    A symbol that one of the package's libraries defines does not count (PySide6, igraph). On
    Windows, and on macOS if an import names a library, the import itself says whose symbol it is.

    Why: the wheel installs on every later Python, or on the oldest that the tag names, and the
    import fails there with "undefined symbol", or breaks silently.
    Fix: define ``Py_LIMITED_API`` as the version of the tag in every source; raise the tag's
    version if the symbol is worth it.
    Level: the import fails on a Python that the tag promises.
    """
    promising = [item for item in package.objects if _promises_abi3(item.path, package)]
    promising = [item for item in promising if item.kind is Kind.SHARED]
    yield from find_unread(
        package,
        found=bool(promising),
        absent="no object that promises the stable ABI",
        concerns=lambda path: _promises_abi3(path, package),
    )
    yield from find_unjudged(target)
    oldest = _baseline(package)
    # The slices of a universal binary mostly have the same problems.
    yield from dict.fromkeys(
        finding
        for library in promising
        for finding in _judge_promise(library, oldest, linkage, target.interpreter)
    )


def _judge_promise(
    library: ObjectFile,
    oldest: tuple[int, int] | None,
    linkage: Linkage,
    python: Interpreter | None,
) -> Iterator[Problem | NotInspected]:
    used = find_python_symbols(library)
    looked_up = used.anywhere.difference(linkage.derive(_list_own_symbols).get(library.path, ()))
    unstable, perhaps = used.asked - stable_abi().keys(), looked_up - stable_abi().keys()
    # why a library that could not be read may define the symbols
    missing = linkage.derive(_find_incomplete).get(library.path)
    doubt = f"{missing} is missing" if missing else ""
    if library.format != linkage.format:
        doubt = f"{linkage.target.partition(',')[0]} does not load {library.format}"
    if python is not None:
        # A symbol that no Python has is another library's, or undefined: undefined-symbol reports
        # it.
        perhaps &= python.exports
    if perhaps and doubt:
        names = _format_names(perhaps)
        use = f"uses {names}, not in the stable ABI, unless another library defines it"
        yield NotInspected(path=library.path, sentence=f"{use}: {doubt}")
        perhaps = frozenset()
    if unstable or perhaps:
        use = f"uses {_format_names(unstable | perhaps)}, not in the stable ABI"
        yield Problem(
            path=library.path, sentence=f"{use}: {_DANGER}", facts=(min(unstable | perhaps),)
        )
    yield from _judge_age(library, used.asked | looked_up, oldest)


def _judge_age(
    library: ObjectFile, names: Iterable[str], oldest: tuple[int, int] | None
) -> Iterator[Problem]:
    added = {name: stable_abi()[name] for name in names if name in stable_abi()}
    newer = [name for name, since in added.items() if oldest and since > oldest]
    if newer and oldest:
        latest = max(added[name] for name in newer)
        yield Problem(
            path=library.path,
            sentence=f"uses {_format_names(newer)}, in the stable ABI only since Python "
            f"{_format_version(latest)}, "
            f"while the tag promises {_format_version(oldest)}, where the import may fail",
            facts=(newer[0],),
        )


def _baseline(package: Package) -> tuple[int, int] | None:
    """Return the oldest CPython that is claimed; None if none is named."""
    if package.claims.partial:
        return None  # a folder without tags may have modules for several Pythons
    pythons = (each for each in package.claims.pythons if each.implementation == "cpython")
    return min((each.version for each in pythons if each.version), default=None)


def _promises_abi3(path: str, package: Package) -> bool:
    """Whether more than one Python loads the file; in a cp312-cp312 wheel only CPython 3.12 does.

    The files of a folder come from many packages: there the name of each file decides.
    """
    pythons, name = package.claims.pythons, parse_extension_name(path)
    if package.claims.partial:
        return name is not None and bool(name.stable)
    if any(each.abi.startswith("abi3") for each in pythons):
        return True
    bound = bool(pythons) and all(each.abi.startswith("cp") for each in pythons)
    return name is not None and bool(name.stable) and not bound


def _format_names(names: Collection[str]) -> str:
    return name_first(sorted(names), _SHOWN)


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@check
def free_threading_mismatch(package: Package) -> Iterator[Finding]:
    """An extension module is compiled for a different kind of CPython than its name or tag says.

    Symbols show it: the functions that ``Py_DECREF`` calls differ between the headers of a
    free-threaded and of a GIL-enabled build. Only a free-threaded build exports its own, as well as
    ``PyUnstable_Module_SetGIL`` and a few others.

    Under a tag without an ABI (``cp314-none``), a wheel is for both builds of CPython 3.14.

    Why: the two builds have different object headers; the import fails, or memory is corrupted.
    Fix: build with the headers of the tag's interpreter, and clean up between builds. Name the ABI
    in the tag: ``cp314-cp314``.
    Level: the import fails, or memory is corrupted. It is a warning for a tag without an ABI:
    installers prefer a wheel for the free-threaded build, if the release has one.
    """
    modules = [item for item in package.objects if _bound_name(item.path) and is_extension(item)]
    yield from find_unread(
        package,
        found=bool(modules),
        absent="no extension module that is tied to one kind of CPython",
        concerns=_bound_name,
    )
    pythons = package.claims.pythons
    yield from dict.fromkeys(
        finding for item in modules for finding in _judge_headers(item, pythons)
    )
    yield from dict.fromkeys(_find_builds_without_module(modules, pythons))


def _judge_headers(library: ObjectFile, pythons: Collection[PythonClaim]) -> Iterator[Problem]:
    name = _bound_name(library.path)
    assert name is not None
    free_threaded = name.free_threaded
    if not name.version:
        free_threaded = bool(pythons) and all(each.free_threaded for each in pythons)
    special = free_threaded_symbols()
    names = find_python_symbols(library, special | {_WITH_GIL}).names
    used = sorted(special & names)
    if used and not free_threaded:
        yield Problem(
            path=library.path,
            sentence=f"uses {used[0]}, which only free-threaded Pythons have, but is named "
            f"{name.suffix}",
            facts=(used[0],),
        )
    elif free_threaded and not used and _WITH_GIL in names:
        yield Problem(
            path=library.path,
            sentence=f"is named {name.suffix} but uses {_WITH_GIL} and no free-threaded reference "
            "counting: it was compiled with the headers of a GIL-enabled build",
            facts=(_WITH_GIL,),
        )


def _find_builds_without_module(
    modules: Sequence[ObjectFile], pythons: Iterable[PythonClaim]
) -> Iterator[Problem]:
    """Yield modules for the build with the GIL under a tag that a free-threaded build accepts, too.

    ``packaging.tags`` lists ``cp314-none`` for CPython 3.14 and 3.14t, but for no later one.
    """
    versions = [
        each.version
        for each in pythons
        if each.version and each.name.startswith("cp") and each.name.endswith("-none")
    ]
    named = [(item, name) for item in modules if (name := _bound_name(item.path))]
    free = {
        (item.directory, name.stem)
        for item, name in named
        if name.free_threaded or find_python_symbols(item, free_threaded_symbols()).names
    }
    for version, (item, name) in product(versions, named):
        is_served = (item.directory, name.stem) in free or version < _FIRST_FREE_THREADED
        if is_served or name.version not in (None, version):
            continue
        ours = f"cp{version[0]}{version[1]}"
        does = (
            f"imports no file ending in {name.suffix}"
            if name.version
            else "imports this file although it is compiled for the build with the GIL"
        )
        yield Problem(
            path=item.path,
            sentence=f"{ours}-none is also a tag of CPython {_format_version(version)}t, which "
            f"{does}: use the tag {ours}-{ours}",
            facts=(ours,),
            level=Level.WARNING,
        )


def _bound_name(path: str) -> ExtensionName | None:
    """Return the name of an extension module for one Python version; None for any other file."""
    name = parse_extension_name(path)
    return None if name is None or name.stable else name


@check(level=Level.WARNING)
def gil_enabled_by_module(package: Package) -> Iterator[Finding]:
    """An extension module makes a free-threaded Python enable the GIL.

    A module has to state ``Py_MOD_GIL_NOT_USED``: in the slot ``Py_mod_gil`` of its ``PyModuleDef``
    or, if it calls ``PyModule_Create``, by ``PyUnstable_Module_SetGIL``. Slots are read from the
    data of the module. Not inspected are slots that its code fills, the value that it passes to
    ``PyUnstable_Module_SetGIL``, and slots that only ``PyModExport`` returns.

    Why: from that import on, the whole program runs one thread at a time.
    Fix: state ``Py_MOD_GIL_NOT_USED`` in each module that is ready (``freethreading_compatible`` in
    Cython, ``FREE_THREADED`` in nanobind, ``mod_gil_not_used()`` in pybind11, ``gil_used = false``
    in PyO3), and ship no free-threaded wheel before all of them are.
    Level: the package works, only not in parallel.
    """
    promised = any(each.free_threaded or each.abi == "abi3t" for each in package.claims.pythons)
    concerns = partial(is_for_free_threads, promised=promised)
    modules = [item for item in package.objects if concerns(item.path) and is_extension(item)]
    yield from find_unread(
        package,
        found=bool(modules),
        absent="no extension module for free-threaded Pythons",
        concerns=concerns,
    )
    yield from dict.fromkeys(map(_judge_use_of_gil, (m for m in modules if not m.gil_not_used)))


def _judge_use_of_gil(module: ObjectFile) -> Problem | NotInspected:
    at_once = module.imports.among(
        ("PyModule_Create2", "PyModuleDef_Init", "PyUnstable_Module_SetGIL")
    ) == {"PyModule_Create2"}
    if module.gil_not_used is None and not at_once:
        return NotInspected(path=module.path, sentence="its code decides whether it needs the GIL")
    lacks = (
        "calls PyModule_Create without PyUnstable_Module_SetGIL and"
        if at_once
        else "has no slot Py_mod_gil with"
    )
    return Problem(
        path=module.path,
        sentence=f"{lacks} Py_MOD_GIL_NOT_USED, so a free-threaded Python enables the GIL "
        "for the whole program when it imports the module: state it once the module is ready",
        cause=OF_ENABLED_GIL,
    )


@check
def missing_init_function(
    library: ObjectFile, package: Package, code: CodeNames
) -> Iterator[Finding]:
    """A file is named like an extension module but cannot be imported.

    Some libraries are named like an extension module and are exempt: one that uses no Python API
    and is opened through cffi or ctypes (pycryptodome), one that another object needs or opens by
    its name (ddtrace's libdd_wrapper), and one whose name the package's code contains (memray
    injects ``"_inject.abi3.so"`` into other processes). A file that the package's code imports by
    its path needs the init function for the name under which it is imported
    (``spec_from_file_location``). Python 2 calls ``init<name>``, Python 3.15 and later first
    ``PyModExport_<name>`` (PEP 793). A module of HPy (``_demo.hpy0.so``) needs the functions that
    hpy.universal looks up.

    Why: the import fails with "dynamic module does not define module export function".
    Fix: give the file the name that the module was compiled for, or export ``PyInit_<name>``.
    Level: users cannot import the module. It is a warning for a library that a Java virtual machine
    may load (pemja's pemja_core exports ``JNI_OnLoad``).
    """
    if library.kind is Kind.SHARED and (functions := hpy_functions(library.path)):
        lacking = [each for each in functions if not library.exports.among((each,))]
        if lacking:
            sentence = f"does not export {lacking[0]}, without which hpy.universal does not load it"
            yield Problem(path=library.path, sentence=sentence, facts=(lacking[0],))
        return
    name = parse_extension_name(library.path)
    if library.kind is not Kind.SHARED or name is None:
        return
    if package.claims.pythons and all(map(is_python_2, package.claims.pythons)):
        if fault := find_old_init_fault(library):
            yield Problem(path=library.path, sentence=fault, facts=(f"init{name.stem}",))
        return
    if fault := find_init_fault(library, package, code):
        function = init_function(name.stem)
        cause = of_init_function(function)
        problem = Problem(path=library.path, sentence=fault, facts=(function,), cause=cause)
        for_java = "it exports JNI_OnLoad, as a library does that a Java virtual machine loads"
        yield soften(problem, for_java if is_for_java(library) else "")


@check
def unimplemented_function(library: ObjectFile, target: TargetSystem) -> Iterator[Finding]:
    """An object uses functions that GraalPy exports but does not implement.

    GraalPy's library contains every function of the C API, so that modules load. Some of them only
    print their name and a stack trace. Cython and pybind11 name such functions in code that they do
    not run on GraalPy.

    Why: the call prints "Function not implemented in GraalPy" and ends the process.
    Fix: use another function under ``#ifdef GRAALVM_PYTHON``, or publish no wheel for GraalPy.
    Level: a warning, as only a call ends the process.
    """
    python = target.interpreter
    if python is None or not python.unimplemented:
        raise NotApplicable("no tag is for a GraalPy whose functions are known")
    used = find_python_symbols(library, python.unimplemented).names
    if used:
        release = f"GraalPy {python.release}"
        sentence = f"uses {_format_names(used)}, which {release} does not implement: a call ends "
        yield Problem(
            path=library.path,
            sentence=f"{sentence}the process",
            level=Level.WARNING,
            facts=(min(used),),
        )


# Whether extension modules fit the NumPy that the package requires.

_MICROS = range(10)
_FIRST = tuple((1, minor) for minor in range(7, 27))  # 1.26 is the last release of NumPy 1
_SECOND = tuple((2, minor) for minor in range(60))
_OLDEST_WITH_SECOND = (3, 9)  # the oldest Python for which there is a NumPy 2


@check
def numpy_version_mismatch(package: Package, target: TargetSystem) -> Iterator[Finding]:
    """An extension module is built for another NumPy than the package requires.

    The module itself records its NumPy: the headers compile the message of ``import_array()`` into
    it; headers of NumPy 2 also record the oldest version that it runs with. A module built with
    NumPy 1.x runs with 1.x alone; one built with 2.x runs with both. Modules that use NumPy without
    its headers (pybind11) run with any. A module of a package that does not require NumPy is only
    noted.

    Why: NumPy 2 ends the import of such a module with "A module that was compiled using NumPy 1.x
    cannot be run in NumPy 2"; a NumPy that is older than the recorded oldest version ends it with a
    RuntimeError.
    Fix: build with NumPy 2 (``build-system.requires = ["numpy>=2.0"]``), or require ``numpy<2``.
    Level: installers choose a NumPy that the module refuses. It is a warning for a library that is
    not named like an extension module, as it may be opened for other purposes.
    """
    built = [(item.path, item.numpy) for item in package.objects if item.numpy is not None]
    if not built:
        raise NotApplicable("no object built with NumPy's headers")
    if canonicalize_name(package.name) == "numpy":
        raise NotApplicable("it is NumPy")
    required = [
        each.specifier
        for each in applicable(package.claims.requirements, target)
        if canonicalize_name(each.name) == "numpy"
    ]
    second = _may_have_second(package, target)
    faults = {
        build: _find_numpy_fault(build, required, second=second)
        for build in dict.fromkeys(build for _, build in built)
    }
    for path, build in dict.fromkeys(built):
        if required:
            level = Level.ERROR if parse_extension_name(path) else Level.WARNING
            if sentence := faults[build]:
                yield Problem(path=path, sentence=sentence, level=level)
        elif build.api == 1:
            sentence = "is built with NumPy 1.x, which the package does not require"
            yield Note(path=path, sentence=sentence)


def _may_have_second(package: Package, target: TargetSystem) -> bool:
    """Whether NumPy 2 exists for one of the claimed Pythons."""
    python = target.interpreter
    if python is not None:
        return python.version >= _OLDEST_WITH_SECOND
    pythons = package.claims.pythons
    if pythons and all(each.is_for_one_version for each in pythons):
        versions = [each.version for each in pythons if each.version]
        return any(version >= _OLDEST_WITH_SECOND for version in versions)
    return not pythons or not all(map(is_python_2, pythons))


def _find_numpy_fault(build: NumpyBuild, required: Sequence[SpecifierSet], *, second: bool) -> str:
    """Return why a module's NumPy does not fit the required versions; "" if it does."""
    spelled = ",".join(sorted({str(each) for each in required if str(each)}))
    asked = f"the package requires numpy{elide(spelled)}"
    if build.api == 1 and second and _allow(required, _SECOND):
        sentence = f"is built with NumPy 1.x, which NumPy 2 refuses, and {asked}"
        return f"{sentence}: installers choose NumPy 2"
    if build.api == 2 and build.oldest:
        major, minor = map(int, build.oldest.split("."))
        if not _allow(required, [each for each in _FIRST + _SECOND if each >= (major, minor)]):
            return f"is built for NumPy {build.oldest} or newer, and {asked}, which is older"
    return ""


def _allow(required: Iterable[SpecifierSet], versions: Iterable[tuple[int, int]]) -> bool:
    """Whether all requirements together allow one of those versions."""
    required = tuple(required)
    return any(
        all(each.contains(f"{major}.{minor}.{micro}", prereleases=True) for each in required)
        for major, minor in versions
        for micro in _MICROS
    )


def _list_own_symbols(linkage: Linkage) -> dict[str, Collection[str]]:
    """Map each object to the symbols that a library defines which is loaded with it."""
    return dict(linkage.own_python_symbols)


def _find_incomplete(linkage: Linkage) -> dict[str, str]:
    """Map each object whose process lacks a library to that library."""
    missing = {
        edge.path: edge.needed
        for edge in reversed(linkage.edges)
        # No release of a system library defines symbols of Python.
        if edge.resolved is None and not edge.unknown and not edge.partly
    }
    found: dict[str, str] = {}
    for _, loaded in reversed(linkage.closures):
        if absent := next((missing[path] for path in loaded if path in missing), ""):
            found.update(dict.fromkeys(loaded, absent))
    return found
