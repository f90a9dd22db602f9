"""The work of the simulation is limited: a package that needs more is too large to inspect."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.errors import TooLarge
from binary_checks.loaders import loader as loader_module
from binary_checks.loaders import required_packages, simulate
from binary_checks.model import Outcome, PeFile, Symbol, Symbols
from binary_checks.profile import Profile
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.linking import dll, library, link, needs, target, windows
from fixtures.values import pe_file, symbols, wheel

CHAIN = 600  # more than Python can nest


def write_chain(folder: Path) -> Path:
    """Write a wheel whose extension loads a library, which loads another one, and so on."""
    first = build_elf(soname="liba.so", needed=["libb.so"], runpath="$ORIGIN")
    init = [ElfSymbol("PyInit__native")]
    members = {
        "demo/_native.cpython-311-x86_64-linux-gnu.so": build_elf(
            needed=["liba.so"], runpath="$ORIGIN", exports=init
        ),
        "demo/liba.so": first,
        "demo/libb.so": build_elf(soname="libb.so"),
    }
    return build_wheel(folder, members=members)


def test_a_simulation_without_an_end_is_too_large_to_inspect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_module, "_MOST_STEPS", 10)
    with examine(write_chain(tmp_path)) as examination:
        verdicts = {each.check: each for each in judge(examination)}
    verdict = verdicts["missing-library"]
    assert verdict.outcome is Outcome.FAILED
    assert [problem.sentence for problem in verdict.problems] == [
        "too large to inspect: loading its objects, each in a process of its own with everything "
        "it needs, takes more than 10 steps; raise limit_factor in the profile, or accept the "
        "problem there"
    ]


def test_a_profile_raises_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "_MOST_STEPS", 10)
    with examine(write_chain(tmp_path), profile=Profile(limit_factor=100)) as examination:
        verdicts = {each.check: each.outcome for each in judge(examination)}
    assert verdicts["missing-library"] is Outcome.PASSED


def test_needs_and_requirements_are_compared_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(required_packages, "_MOST_PAIRS", 5)
    lacking = library("demo/liba.so", *("libx.so", "liby.so", "libz.so"))
    package = wheel(
        objects=[lacking], metadata=[("Requires-Dist", "one"), ("Requires-Dist", "two")]
    )
    with pytest.raises(TooLarge, match="3 unsatisfied needs, and 2 requirements"):
        simulate(package, target(), requirements=("one", "two"))


def test_a_function_may_be_passed_on_by_more_libraries_than_python_nests() -> None:
    chain: list[PeFile] = [
        dll(
            f"demo/lib{n}.dll", exports=Symbols([Symbol(name="work", forwarder=f"lib{n + 1}.work")])
        )
        for n in range(CHAIN)
    ]
    asked = Symbols([Symbol(name="work", library="lib0.dll")])
    module = pe_file(
        "demo/_native.cp311-win_amd64.pyd",
        exports=symbols("PyInit__native"),
        needed=needs("lib0.dll"),
        imports=asked,
    )
    end = dll(f"demo/lib{CHAIN}.dll", exports=symbols("work"))
    assert simulate(wheel(objects=[module, *chain, end]), windows()).unresolved == ()
    (lost,) = simulate(wheel(objects=[module, *chain]), windows()).unresolved
    assert (lost.name, lost.library) == ("work", "lib0.dll")


def test_of_a_search_path_that_repeats_itself_each_folder_is_searched_once() -> None:
    """All libraries lie in one folder, and their RPATHs are handed down."""
    found = link(
        library("demo/liba.so", "libb.so", rpath=("$ORIGIN", "$ORIGIN/libs")),
        library("demo/libb.so", "liblost.so", rpath=("$ORIGIN", "$ORIGIN/libs")),
    )
    (edge,) = (each for each in found.edges if each.needed == "liblost.so")
    assert edge.searched == ("demo", "demo/libs")
