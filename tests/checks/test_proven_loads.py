"""An object that a fresh process has loaded with everything it needs is not to blame."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from binary_checks.checks.linkage.needed_libraries import (
    load_order_dependent,
    missing_library,
    missing_search_directory,
)
from binary_checks.checks.symbols import missing_version, undefined_symbol
from binary_checks.knowledge.loaded_files import find_doubtful_roots, mark_proven
from binary_checks.loaders import simulate
from binary_checks.model import (
    Ending,
    Finding,
    ImportReport,
    ImportRequest,
    Level,
    Linkage,
    LoadedTogether,
    MissingVersion,
    Note,
    Problem,
    Simulation,
    Step,
    UnresolvedSymbol,
    Wheel,
)
from binary_checks.probes.load_extensions.reader import load_doubtful
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, UnpackedPlace, read_wheel
from fixtures.linking import EXTENSION, dll, extension, library, target, windows
from fixtures.values import only, symbols, wheel

NOTHING = ImportRequest()
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
HELPER = "demo/native/libhelper.so.1"
FOUND = Note(
    path=EXTENSION,
    sentence=f"does not find libhelper.so.1 itself, but importing the package loads {HELPER} "
    "before it",
)


def prove(package: Wheel, linkage: Linkage, *processes: tuple[str, ...]) -> Linkage:
    loaded = LoadedTogether(python="CPython 3.11", architecture="x86_64", processes=processes)
    return mark_proven(linkage, loaded, package)


def judge(package: Wheel, *processes: tuple[str, ...]) -> list[Finding]:
    linkage = prove(package, simulate(package, target()), *processes)
    checks = (load_order_dependent, missing_library, missing_search_directory)
    return [finding for check in checks for finding in check(linkage, package)]


def stranded() -> Wheel:
    return wheel(objects=(extension("libhelper.so.1"), library(HELPER, name="libhelper.so.1")))


@pytest.mark.parametrize(
    "processes",
    [
        (),
        ((EXTENSION,), (HELPER,)),  # never in the same process
        ((EXTENSION, "/usr/lib/libhelper.so.1"),),  # this system's library is not the users'
    ],
)
def test_without_such_a_process_the_need_stays_a_problem(
    processes: tuple[tuple[str, ...], ...],
) -> None:
    assert only(Problem, judge(stranded(), *processes)).level is Level.ERROR
    assert judge(stranded(), *processes, (EXTENSION, HELPER)) == [FOUND]


def test_only_needs_that_the_layout_can_meet_are_in_doubt() -> None:
    package = stranded()
    assert find_doubtful_roots(simulate(package, target())) == (EXTENSION,)
    absent = wheel(objects=(extension("libabsent.so.1", "libz.so.1"),))
    assert find_doubtful_roots(simulate(absent, target())) == ()


def test_a_slice_that_did_not_run_is_not_proven() -> None:
    package = stranded()
    linkage = simulate(package, target())
    other = replace(linkage.edges[0], architecture="i686")
    both = replace(linkage, edges=(*linkage.edges, other))
    proven = prove(package, both, (EXTENSION, HELPER)).edges
    assert [edge.proven for edge in proven if edge.needed == "libhelper.so.1"] == [HELPER, ""]


def test_windows_compares_names_without_case() -> None:
    module, core = dll("demo/_a.cp311-win_amd64.pyd", "core.dll"), dll("demo/bin/Core.dll")
    package = wheel(objects=(module, core))
    linkage = simulate(package, windows())
    assert find_doubtful_roots(linkage) == (module.path,)
    proven = prove(package, linkage, (module.path.upper(), "demo/bin/core.dll"))
    assert only(Note, load_order_dependent(proven, package))


def with_symbol(**fields: str) -> tuple[Linkage, Wheel]:
    item = UnresolvedSymbol(path=EXTENSION, name="helper", root=EXTENSION, **fields)
    linkage = Linkage(
        target="manylinux_2_17_x86_64", closures=((EXTENSION, (EXTENSION,)),), unresolved=(item,)
    )
    module = extension(exports=symbols("PyInit__native"))
    objects = (module, library("demo/libb.so", exports=symbols("helper")))
    return linkage, wheel(objects=objects)


@pytest.mark.parametrize("definer", ["wheel:base:base/liba.so", "demo/libb.so"])
def test_a_symbol_that_a_library_of_the_process_defines_is_only_noted(definer: str) -> None:
    linkage, package = with_symbol(elsewhere="wheel:base:base/liba.so")
    had = definer.rpartition(":")[2]
    assert list(undefined_symbol(prove(package, linkage, (EXTENSION, had)), package)) == [
        Note(
            path=EXTENSION,
            sentence=f"has 1 undefined symbol (helper), and importing the package loads {definer}, "
            "which defines it",
        )
    ]
    nowhere, module = with_symbol()  # a system whose library has it proves nothing
    assert find_doubtful_roots(nowhere) == ()
    for unproven, judged in ((linkage, package), (nowhere, module)):
        assert only(Problem, undefined_symbol(prove(judged, unproven, (EXTENSION,)), judged))


@pytest.mark.parametrize(("provider", "number"), [("demo/liba.so.1", 0), ("system:libssl.so.3", 1)])
def test_a_version_that_the_loader_accepted_is_there_unless_this_system_has_it(
    provider: str, number: int
) -> None:
    item = MissingVersion(
        path=EXTENSION, root=EXTENSION, library="liba.so.1", version="A_2", provider=provider
    )
    linkage = Linkage(
        target="manylinux_2_17_x86_64",
        closures=((EXTENSION, (EXTENSION,)),),
        missing_versions=(item,),
    )
    package = wheel(objects=(extension(),))
    proven = prove(package, linkage, (EXTENSION, "liba/liba.so.1"))
    assert len(list(missing_version(proven, package))) == number


PRELOADING = """
import ctypes, json, pathlib
folder = pathlib.Path(__file__).parent
for name in json.loads(folder.joinpath("libraries.json").read_text()):
    ctypes.CDLL(str(folder / "native" / name))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnpackedPlace]:
    folder = tmp_path_factory.mktemp("doubtful")
    needing = build_elf(needed=["libhelper.so.1"], exports=[ElfSymbol("PyInit_other")])
    members = {
        "demo/__init__.py": PRELOADING,
        "demo/libraries.json": '["libhelper.so.1"]',
        HELPER: build_elf(soname="libhelper.so.1", exports=[ElfSymbol("help")]),
        f"demo/_native{SUFFIX}": needing,
        f"alone/_native{SUFFIX}": needing,
    }
    path = build_wheel(folder, tags=PURE, members=members)
    with UnpackedPlace(read_wheel(path), folder / "environment") as place:
        yield place


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or "x86_64-linux" not in SUFFIX,
    reason="the extension modules are ELF for x86_64",
)
def test_a_fresh_process_shows_what_code_of_the_package_loads_first(
    environment: UnpackedPlace,
) -> None:
    package = environment.wheel
    linkage = simulate(package, target())
    nothing = ImportReport(python="", steps=(Step(name="demo", outcome=Ending.RAISED),))
    loaded = load_doubtful(environment, package, Simulation(linkage=linkage), nothing, NOTHING)
    proven = mark_proven(linkage, loaded, package)
    found = {
        package.layout.inside(item.path): type(item)  # type: ignore[union-attr]
        for item in load_order_dependent(proven, package)
    }
    assert found == {f"demo/_native{SUFFIX}": Note, f"alone/_native{SUFFIX}": Problem}


def test_no_process_starts_for_a_package_without_doubts(environment: UnpackedPlace) -> None:
    package = wheel(objects=(extension("libz.so.1"),))
    simulation = Simulation(linkage=simulate(package, target()))
    imports = ImportReport(python="", steps=(Step(name="demo", libraries=(EXTENSION,)),))
    assert load_doubtful(environment, package, simulation, imports, NOTHING).processes == ()
