"""What keeps libraries from loading on Windows is told, and healthy ones are left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks import windows
from binary_checks.checks.linkage.needed_libraries import missing_library
from binary_checks.errors import NotApplicable
from binary_checks.loaders import simulate
from binary_checks.model import (
    CppArchive,
    Dependency,
    DispensableObject,
    Edge,
    Finding,
    Format,
    Kind,
    Level,
    Linkage,
    MalformedObject,
    NotInspected,
    Package,
    PeFile,
    Problem,
    Rule,
    Wheel,
)
from fixtures.linking import dll, link
from fixtures.linking import windows as on_windows
from fixtures.values import elf_file, member, only, pe_file, say, symbols, wheel

WINDOWS = Linkage(target="win_amd64, CPython 3.11", format=Format.PE)
HASH = "a4c2229bdc2a2a630acdc095b4d86008"


def _needs(*names: str, delayed: bool = False) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name, delayed=delayed) for name in names)


def _wheel(*objects: PeFile, tags: str = "cp311-cp311", **fields: Any) -> Wheel:
    return wheel(f"demo-1.0-{tags}-win_amd64.whl", objects=objects, **fields)


@pytest.mark.parametrize(
    "name",
    [
        "VCRUNTIME140D.dll",
        "vcruntime140_1d.dll",
        "vcruntime140_threadsd.dll",
        "ucrtbased.dll",
        "MSVCP140D.dll",
        "msvcp140_1d.dll",
        "msvcp140d_atomic_wait.dll",
        "msvcp140d_codecvt_ids.dll",
        "VCOMP140D.DLL",
        "concrt140d.dll",
        "mfc140ud.dll",
        "msvcr120d.dll",
        "libomp140d.x86_64.dll",
    ],
)
@pytest.mark.parametrize("delayed", [False, True])
def test_the_debug_runtime_is_on_no_users_machine(name: str, delayed: bool) -> None:
    library = pe_file(needed=_needs("KERNEL32.dll", name, delayed=delayed))
    assert say(windows.debug_runtime(library, wheel(), Linkage(target=""))) == [
        f"needs {name} of the debug runtime, which only Visual Studio has: it loads nowhere "
        "else; build it as a release (/MD)"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "VCRUNTIME140.dll",
        "VCRUNTIME140_1.dll",
        "MSVCP140.dll",
        "msvcp140_codecvt_ids.dll",
        "msvcrt.dll",
        "ucrtbase.dll",
        "vcomp140.dll",
        "msvcp140_atomic_wait.dll",
        "liblzmad.dll",
    ],
)
def test_the_release_runtime_is_no_debug_runtime(name: str) -> None:
    assert (
        list(windows.debug_runtime(pe_file(needed=_needs(name)), wheel(), Linkage(target=""))) == []
    )


@pytest.mark.parametrize(
    ("name", "path", "found"),
    [
        ("tbb-1.0-win-x64.zip", "bin/tbb12_debug.dll", 0),
        ("tbb-1.0-win-x64.zip", "debug/bin/tbb12.dll", 0),
        ("libtorch-win-shared-with-deps-debug-2.13.0.zip", "lib/torch.dll", 0),
        ("tbb-1.0-win-x64.zip", "bin/tbb12.dll", 1),
        ("tbb-1.0-win-x64.zip", "bin/debugger.dll", 1),
    ],
)
def test_cpp_users_debug_with_what_is_named_so(name: str, path: str, found: int) -> None:
    library = pe_file(path, needed=_needs("MSVCP140D.dll"))
    package = CppArchive(path=Path(name), objects=(library,))
    assert len(list(windows.debug_runtime(library, package, package))) == found
    assert only(Problem, windows.debug_runtime(library, _wheel(library), Linkage(target="")))


def test_a_debug_runtime_next_to_the_library_is_a_warning() -> None:
    """flet/bin/flet has ucrtbased.dll, vcruntime140d.dll and zlib.dll, which needs both."""
    library = pe_file("demo/bin/zlib.dll", needed=_needs("VCRUNTIME140D.dll", "ucrtbased.dll"))
    runtime = [pe_file(f"demo/bin/{name}") for name in ("vcruntime140d.dll", "ucrtbased.dll")]
    linkage = Linkage(target="")
    problem = only(Problem, windows.debug_runtime(library, _wheel(library, *runtime), linkage))
    assert problem.level is Level.WARNING
    told = "needs VCRUNTIME140D.dll, ucrtbased.dll of the debug runtime, which the package has next"
    assert problem.sentence.startswith(told)
    problem = only(Problem, windows.debug_runtime(library, _wheel(library, *runtime[:1]), linkage))
    assert problem.level is Level.ERROR
    assert problem.sentence.startswith("needs ucrtbased.dll of the debug runtime, which only")


def test_a_debug_build_that_nobody_reaches_is_a_warning_and_a_profile_may_allow_it() -> None:
    library = pe_file("demo/bin/libc++.dll", needed=_needs("MSVCP140D.dll", "ucrtbased.dll"))
    unreached = DispensableObject(path=library.path, reason="no import of the package reaches it")
    linkage, package = Linkage(target="", dispensable=(unreached,)), _wheel(library)
    assert only(Problem, windows.debug_runtime(library, package, linkage)).level is Level.WARNING
    allowed = ("ucrtbased.dll", "msvcp140d.dll")
    assert list(windows.debug_runtime(library, package, linkage, allowed=allowed)) == []


def test_a_runtime_that_a_requirement_opens_is_a_warning() -> None:
    """sktime 0.9.0 imports scikit-learn, which opens its msvcp140.dll, before its own module."""
    package = _wheel(pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll")))
    linkage = replace(WINDOWS, requirements=("numpy", "scikit-learn"))
    problem = only(Problem, windows.unbundled_runtime(package, linkage))
    assert problem.level is Level.WARNING
    assert problem.sentence.endswith(
        "scikit-learn, which the package requires, opens a copy when imported"
    )
    (problem,) = windows.unbundled_runtime(package, replace(linkage, requirements=("numpy",)))
    assert isinstance(problem, Problem)
    assert problem.level is Level.ERROR


def test_a_runtime_that_nobody_brings_is_told_once_with_its_users() -> None:
    package = _wheel(
        pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll", "VCRUNTIME140_1.dll")),
        pe_file("demo/b.pyd", needed=_needs("msvcp140.dll", "libomp140.x86_64.dll")),
        pe_file("demo/c.pyd", needed=_needs("msvcp140.dll")),
    )
    assert list(windows.unbundled_runtime(package, WINDOWS)) == [
        Problem(
            path="demo/a.pyd",
            sentence="needs msvcp140.dll (so do 2 more), which neither CPython nor the wheel "
            "ships: the import fails if the Visual C++ redistributable is not installed; "
            "bundle it (delvewheel repair)",
            cause="library msvcp140.dll",
        ),
        Problem(
            path="demo/b.pyd",
            sentence="needs libomp140.x86_64.dll, which no Visual C++ redistributable "
            "installs: bundle it",
            cause="library libomp140.x86_64.dll",
        ),
    ]


def test_a_wheel_for_other_systems_only_carries_its_dlls() -> None:
    carried = pe_file("demo/attach_amd64.dll", needed=_needs("MSVCP140.dll"))
    for_linux = wheel("demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=[carried])
    with pytest.raises(NotApplicable):
        list(windows.unbundled_runtime(for_linux, WINDOWS))
    both = "manylinux_2_17_x86_64.win_amd64"
    for platform in ("any", both):
        package = wheel(f"demo-1.0-py3-none-{platform}.whl", objects=[carried])
        assert len(list(windows.unbundled_runtime(package, WINDOWS))) == 1


def test_a_program_without_its_runtime_does_not_start_and_a_module_beside_it_says_more() -> None:
    program = pe_file("demo/a.exe", kind=Kind.EXECUTABLE, needed=_needs("MSVCP140.dll"))
    alone = only(Problem, windows.unbundled_runtime(_wheel(program), WINDOWS))
    assert (alone.path, alone.level) == ("demo/a.exe", Level.WARNING)
    assert "ships: it does not start if the Visual C++" in alone.sentence
    module = pe_file("demo/b.pyd", needed=_needs("MSVCP140.dll"))
    both = only(Problem, windows.unbundled_runtime(_wheel(program, module), WINDOWS))
    assert (both.path, both.level) == ("demo/b.pyd", Level.ERROR)
    assert "ships: the import fails if the Visual C++" in both.sentence


def test_a_library_that_only_a_program_loads_is_a_warning_like_the_program() -> None:
    program = dll("demo/tool.exe", "part.dll", kind=Kind.EXECUTABLE)
    part, module = dll("demo/part.dll", "MSVCP140.dll"), dll("demo/_a.pyd")
    package = _wheel(program, part, module)
    found = only(Problem, windows.unbundled_runtime(package, simulate(package, on_windows())))
    assert (found.path, found.level) == ("demo/part.dll", Level.WARNING)
    assert "ships: it does not start if the Visual C++" in found.sentence
    shared = _wheel(program, part, dll("demo/_a.pyd", "part.dll"))
    needed = only(Problem, windows.unbundled_runtime(shared, simulate(shared, on_windows())))
    assert needed.level is Level.ERROR
    program = dll("demo/bin/tool.exe", "MSVCP140.dll", kind=Kind.EXECUTABLE)
    package = _wheel(dll("demo/_a.pyd", "MSVCP140.dll"), program, dll("demo/bin/msvcp140.dll"))
    found = only(Problem, windows.unbundled_runtime(package, simulate(package, on_windows())))
    assert found.path == "demo/_a.pyd"  # which the program's copy does not help


def test_what_a_missing_runtime_does_is_told_of_the_object_that_something_reaches() -> None:
    reached, plugin = "demo/b.pyd", "demo/a.dll"
    package = _wheel(*(pe_file(path, needed=_needs("MSVCP140.dll")) for path in (plugin, reached)))
    linkage = replace(
        WINDOWS, dispensable=(DispensableObject(path=plugin, reason="nothing opens it"),)
    )
    finding = only(Problem, windows.unbundled_runtime(package, linkage))
    assert finding.path == reached
    assert "the import fails" in finding.sentence


@pytest.mark.parametrize("name", ["VCRUNTIME140.dll", "msvcp60.dll", "mfc42u.dll", "msvcrt.dll"])
def test_what_windows_and_cpython_have_is_not_asked_of_the_wheel(name: str) -> None:
    package = _wheel(pe_file(needed=_needs(name)))
    assert list(windows.unbundled_runtime(package, WINDOWS)) == []


def test_a_bundled_runtime_is_there_wherever_the_wheel_has_it() -> None:
    package = _wheel(
        pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll", f"vcomp140-{HASH}.dll")),
        pe_file("demo/.libs/msvcp140.dll", needed=_needs("CONCRT140.dll", delayed=True)),
    )
    assert list(windows.unbundled_runtime(package, WINDOWS)) == []


def test_a_copy_of_the_runtime_where_nothing_searches_helps_no_import() -> None:
    """libigl has one in bin at the root of site-packages, and its modules in igl."""
    core, more = dll("demo/_core.pyd", "MSVCP140.dll"), dll("demo/more/_more.pyd", "MSVCP140.dll")
    package = _wheel(core, more, dll("tools/msvcp140.dll"))
    assert list(windows.unbundled_runtime(package, simulate(package, on_windows()))) == [
        Problem(
            path="demo/_core.pyd",
            sentence="needs msvcp140.dll (so does 1 more), and the search does not lead to "
            "tools/msvcp140.dll: the import fails if the Visual C++ redistributable is not "
            "installed; bundle it where it is found (delvewheel repair)",
            cause="library msvcp140.dll",
        )
    ]


@pytest.mark.parametrize(
    ("copy", "fields"),
    [
        ("demo/msvcp140.dll", {}),
        ("tools/msvcp140.dll", {"dll_directories": ("tools",)}),
        ("tools/msvcp140.dll", {"loading_code": ("demo/__init__.py",)}),
    ],
)
def test_a_copy_that_a_module_or_the_packages_code_leads_to_is_enough(
    copy: str, fields: dict[str, Any]
) -> None:
    core, more = dll("demo/_core.pyd", "MSVCP140.dll"), dll("demo/more/_more.pyd", "MSVCP140.dll")
    package = _wheel(core, more, dll(copy), **fields)
    assert list(windows.unbundled_runtime(package, simulate(package, on_windows()))) == []


@pytest.mark.parametrize("other", ["tools/msvcp140_1.dll", "tools/helper.dll"])
def test_a_copy_that_only_unloaded_dlls_find_helps_no_import(other: str) -> None:
    core = dll("demo/_core.pyd", "MSVCP140.dll", "msvcp140_1.dll")
    package = _wheel(core, dll(other, "MSVCP140.dll"), dll("tools/msvcp140.dll"))
    linkage = simulate(package, on_windows())
    idle = (DispensableObject(path="tools/helper.dll", reason="nothing opens it"),)
    found = list(windows.unbundled_runtime(package, replace(linkage, dispensable=idle)))
    assert [each.path for each in found if "to tools/msvcp140.dll" in str(each)] == [core.path]
    opened = replace(package, dll_directories=("tools",))
    again = windows.unbundled_runtime(opened, simulate(opened, on_windows()))
    assert not [each for each in again if "to tools/msvcp140.dll" in str(each)]


def test_a_distribution_may_bring_the_runtime() -> None:
    library = pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll", "Qt6Core.dll"))
    unmet = Edge(
        path="demo/a.pyd",
        architecture="x86_64",
        needed="Qt6Core.dll",
        may_come_with=("pyqt6-qt6",),
    )
    brought = Edge(
        path="demo/a.pyd",
        architecture="x86_64",
        needed="MSVCP140.dll",
        resolved="wheel:pyqt6-qt6:PyQt6/Qt6/bin/msvcp140.dll",
        rule=Rule.ADDED_DIRECTORY,
    )
    asking = Linkage(target="win_amd64", format=Format.PE, edges=(unmet,))
    required = replace(asking, requirements=("pyqt6-qt6",))
    assert list(windows.unbundled_runtime(_wheel(library), required)) == [
        NotInspected(
            path="demo/a.pyd",
            sentence="needs msvcp140.dll, which the wheel with Qt6Core.dll may ship: "
            "give that wheel with --binary-with",
        )
    ]
    for met in ({"resolved": "demo/Qt6Core.dll"}, {"delayed": True}):  # nothing to wait for
        found = replace(required, edges=(replace(unmet, **met),))
        assert [type(each) for each in windows.unbundled_runtime(_wheel(library), found)] == [
            Problem
        ]
    by_its_code = replace(brought, resolved=None, elsewhere=("PyQt6/Qt6/bin/msvcp140.dll",))
    for edge in (brought, by_its_code):
        given = Linkage(target="win_amd64", format=Format.PE, edges=(edge,))
        assert list(windows.unbundled_runtime(_wheel(library), given)) == []
    metadata = (("Requires-Dist", "msvc_runtime>=14.40"),)
    package = _wheel(library, metadata=metadata)
    assert list(windows.unbundled_runtime(package, WINDOWS)) == []


@pytest.mark.parametrize(
    ("needed", "provider", "requirement"),
    [("torch_cpu.dll", ("torch",), "torch"), ("heif.dll", (), "numpy")],
)
def test_a_distribution_that_has_no_runtime_or_no_needed_library_is_not_waited_for(
    needed: str, provider: tuple[str, ...], requirement: str
) -> None:
    library = pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll", needed))
    unmet = Edge(path=library.path, architecture="x86_64", needed=needed, may_come_with=provider)
    asking = replace(WINDOWS, edges=(unmet,), requirements=(requirement,))
    assert only(Problem, windows.unbundled_runtime(_wheel(library), asking))


def test_an_unread_library_is_a_gap_and_no_library_at_all_is_not_applicable() -> None:
    broken = MalformedObject(path="demo/a.dll", format=Format.PE, offset=64, reason="is truncated")
    package = _wheel(malformed=(broken,))
    assert list(windows.unbundled_runtime(package, WINDOWS)) == [
        NotInspected(path="demo/a.dll", sentence="is truncated")
    ]
    needing = pe_file("demo/a.pyd", needed=_needs("MSVCP140.dll"))
    graalpy = _wheel(needing, tags="graalpy312-graalpy250_312_native")
    gap = only(NotInspected, windows.unbundled_runtime(graalpy, WINDOWS))
    assert "GraalPy may ship" in gap.sentence
    unloaded = pe_file(needed=_needs("MSVCP140.dll"), kind=Kind.DEBUG)
    of_linux = MalformedObject(path="demo/a.so", format=Format.ELF, offset=0, reason="is cut")
    for other in (_wheel(elf_file()), _wheel(unloaded), _wheel(malformed=(of_linux,))):
        with pytest.raises(NotApplicable, match="no PE object that is loaded"):
            list(windows.unbundled_runtime(other, WINDOWS))


RUNTIME = f"msvcp140-{HASH}.dll"


def _locking(toolset: str, *imports: str) -> PeFile:
    imported = symbols("_Mtx_lock", "_Mtx_unlock", *imports)
    return pe_file(
        "demo/_native.pyd", needed=_needs(RUNTIME), linker_version=toolset, imports=imported
    )


def _judge_runtime(library: PeFile, package: Package) -> list[Finding]:
    return list(windows.outdated_redistributable(library, package, package))


@pytest.mark.parametrize(
    ("toolset", "runtime"),
    [("14.44", "14.15"), ("14.44", "14.28"), ("14.44", "14.39"), ("14.40", "14.39")],
)
def test_an_old_runtime_crashes_on_a_new_mutex(toolset: str, runtime: str) -> None:
    library, copy = _locking(toolset), pe_file(f"demo.libs/{RUNTIME}", linker_version=runtime)
    assert say(_judge_runtime(library, _wheel(library, copy))) == [
        f"built with toolset {toolset}, uses {RUNTIME} of {runtime}: locking a std::mutex crashes; "
        "bundle a runtime of 14.40 or later"
    ]
    for folder in ("a", "z"):  # the newest of several copies is the one that counts
        newer = pe_file(f"{folder}/{RUNTIME}", linker_version="14.44")
        assert _judge_runtime(library, _wheel(library, copy, newer)) == []


@pytest.mark.parametrize(
    ("library", "runtime"),
    [
        (_locking("14.44"), "14.40"),  # numpy 2.5: Visual Studio's own
        (_locking("14.35"), "14.34"),  # vtk 9.7: both before the change
        (_locking("14.39"), "14.38"),
        (_locking("14.44", "_Mtx_init_in_situ"), "14.28"),  # _DISABLE_CONSTEXPR_MUTEX_CONSTRUCTOR
        (_locking("2.46"), "14.28"),  # MinGW
        (_locking("14.0"), "14.28"),  # LLD
        (pe_file(needed=_needs(RUNTIME), linker_version="14.51"), "14.15"),  # fiona: no mutex
    ],
)
def test_an_older_runtime_that_works_is_left_alone(library: PeFile, runtime: str) -> None:
    package = _wheel(library, pe_file(f"demo.libs/{RUNTIME}", linker_version=runtime))
    assert list(_judge_runtime(library, package)) == []


@pytest.mark.parametrize(
    ("name", "toolset", "user", "found"),
    [
        ("msvcp140.dll", "14.24", "demo/_a.pyd", 1),  # PySide2 5.15.2.1
        ("MSVCP140.dll", "14.0", "demo/_a.pyd", 1),  # panda3d 1.10.16
        ("msvcp140.dll", "14.40", "demo/_a.pyd", 0),  # apache-tvm-ffi 0.1.15
        (RUNTIME, "14.24", "demo/_a.pyd", 0),  # only the modules of this package name it
        ("msvcp140.dll", "14.24", "demo/tool.exe", 0),  # a process of its own
        ("msvcp140.dll", "14.24", "demo/concrt140.dll", 0),  # blosc 1.10.6
        ("vcruntime140.dll", "14.24", "demo/_a.pyd", 0),  # Python has loaded its own
    ],
)
def test_other_packages_get_an_old_runtime_that_has_its_usual_name(
    name: str, toolset: str, user: str, found: int
) -> None:
    kind = Kind.EXECUTABLE if user.endswith(".exe") else Kind.SHARED
    copy, needing = dll(f"demo/{name}", linker_version=toolset), dll(user, name, kind=kind)
    linkage = link(copy, needing, on=on_windows())
    problems = list(windows.outdated_redistributable(copy, _wheel(copy, needing), linkage))
    assert len(problems) == found
    for problem in problems:
        assert isinstance(problem, Problem)
        assert (problem.path, problem.level) == (copy.path, Level.WARNING)
        assert problem.sentence.startswith(f"is of toolset {toolset}, and packages")


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        (0x800, "System32 only"),
        (0x880, "System32 only"),  # LOAD_LIBRARY_REQUIRE_SIGNED_TARGET says nothing of places
        (0x200, "other places"),  # the folder of the program
        (0x400, "other places"),
        (0xE00, "other places"),
        (0x1000, "other places"),
    ],
)
def test_a_search_elsewhere_misses_the_packages_own_libraries(flags: int, place: str) -> None:
    library = pe_file(needed=_needs("helper.dll", "KERNEL32.dll"), dependent_load_flags=flags)
    package = _wheel(library, pe_file("demo/Helper.dll"))
    assert list(windows.restricted_library_search(library, package)) == [
        f"is linked with /DEPENDENTLOADFLAG:{flags:#x} and looks in {place}: "
        "it does not find the package's helper.dll"
    ]


@pytest.mark.parametrize("flags", [0, 0x80, 0x100, 0x900, 0x1100, 0x2000])
def test_a_search_that_includes_the_librarys_own_folder_is_right(flags: int) -> None:
    library = pe_file(needed=_needs("helper.dll"), dependent_load_flags=flags)
    package = _wheel(library, pe_file("demo/helper.dll"))
    assert list(windows.restricted_library_search(library, package)) == []
    for needed in (_needs("KERNEL32.dll"), _needs("helper.dll", delayed=True)):
        other = pe_file(needed=needed, dependent_load_flags=0x800)
        assert list(windows.restricted_library_search(other, package)) == []


@pytest.mark.parametrize("flags", [0x400, 0x1000])
def test_a_search_in_added_directories_finds_what_lies_there(flags: int) -> None:
    library = pe_file(needed=_needs("helper.dll"), dependent_load_flags=flags)
    objects = (library, pe_file("demo.libs/helper.dll"))
    added = _wheel(*objects, dll_directories=("demo.libs",))
    assert list(windows.restricted_library_search(library, added)) == []
    assert len(list(windows.restricted_library_search(library, _wheel(*objects)))) == 1


def test_a_program_does_not_find_the_runtime_beside_python() -> None:
    """prek.exe lies in Scripts, and python.exe with its DLLs in the folder above."""
    program = dll("../../Scripts/prek.exe", "VCRUNTIME140.dll", kind=Kind.EXECUTABLE)
    module = dll("demo/_a.pyd", "VCRUNTIME140.dll", exports=symbols("PyInit__a"))
    linkage = link(program, module, on=on_windows())
    package = _wheel(program, module)
    found = only(Problem, windows.unbundled_runtime(package, linkage))
    assert (found.path, found.level) == (program.path, Level.WARNING)
    assert found.sentence.startswith("needs VCRUNTIME140.dll, which lies next to python.exe")
    assert list(missing_library(linkage, package)) == []
    alone = _wheel(module)
    assert list(windows.unbundled_runtime(alone, link(module, on=on_windows()))) == []
    # PyQtWebEngine_Qt5's QtWebEngineProcess.exe lies in the folder that PyQt5-Qt5 fills.
    edges = tuple(replace(edge, may_come_with=("pyqt5-qt5",)) for edge in linkage.edges)
    gap = only(NotInspected, windows.unbundled_runtime(package, replace(linkage, edges=edges)))
    assert "needs VCRUNTIME140.dll, which pyqt5-qt5 may ship" in gap.sentence


@pytest.mark.parametrize(
    ("assemblies", "tags", "members", "found"),
    [
        (("Microsoft.VC90.CRT",), "cp311-cp311", (), 1),
        (("Microsoft.VC90.CRT",), "cp27-cp27m", (), 0),  # as Python 2.7 itself
        (("Microsoft.VC90.CRT",), "cp311-cp311", ("demo/Microsoft.VC90.CRT.manifest",), 0),
        (("Microsoft.Windows.Common-Controls",), "cp311-cp311", (), 0),
        ((), "cp311-cp311", (), 0),
    ],
)
def test_a_manifest_may_ask_for_a_runtime_that_nobody_has(
    assemblies: tuple[str, ...], tags: str, members: tuple[str, ...], found: int
) -> None:
    module = pe_file("demo/_a.pyd", assemblies=assemblies)
    package = _wheel(module, tags=tags, members=[member(path) for path in members])
    problems = list(windows.unbundled_runtime(package, WINDOWS))
    assert len(problems) == found
    for problem in problems:
        assert isinstance(problem, Problem)
        assert problem.level is Level.WARNING
        assert "asks for the assembly Microsoft.VC90.CRT: without" in problem.sentence
    unread = _wheel(pe_file("demo/_a.pyd", assemblies=None))
    assert only(NotInspected, windows.unbundled_runtime(unread, WINDOWS))
