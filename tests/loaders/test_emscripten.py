"""Emscripten's loader finds needed modules, and links functions by name and type."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.loaders import simulate
from binary_checks.model import Linkage, MistypedFunction, Rule
from binary_checks.packages import open_package
from binary_checks.systems import target_for
from fixtures.build_wasm import build_wasm
from fixtures.build_wheel import build_wheel

I32 = 0x7F
NATIVE = "demo/_native.cpython-314-wasm32-emscripten.so"
TAG = "cp314-cp314-pyemscripten_2026_0_wasm32"
MIDDLE = "cp313-cp313-pyodide_2025_0_wasm32"
OLD = "cp312-cp312-pyodide_2024_0_wasm32"


def link(folder: Path, members: dict[str, bytes], tag: str = TAG) -> Linkage:
    wheel = build_wheel(folder, tags=(tag,), members={"demo/__init__.py": "", **members})
    package = open_package(wheel, objects)
    return simulate(package, target_for(package.claims, frozenset()))


def resolutions(linkage: Linkage) -> dict[str, tuple[str | None, str]]:
    shorten = linkage.layout.shorten
    return {
        edge.needed: (edge.resolved and shorten(edge.resolved), edge.rule.value)
        for edge in linkage.edges
    }


def names(linkage: Linkage) -> list[str]:
    return [item.name for item in linkage.unresolved]


def test_a_runtime_path_leads_to_a_library(tmp_path: Path) -> None:
    members = {
        NATIVE: build_wasm(needed=("libx.so",), runtime_path=("$ORIGIN/../demo.libs",)),
        "demo.libs/libx.so": build_wasm(exports=("x",)),
    }
    found = ("demo.libs/libx.so", "runpath")
    assert resolutions(link(tmp_path, members)) == {"libx.so": found}


@pytest.mark.parametrize("tag", [TAG, MIDDLE])
def test_site_packages_are_searched_and_other_folders_are_not(tmp_path: Path, tag: str) -> None:
    native = NATIVE.replace("314", tag[2:5])
    members = {native: build_wasm(needed=("liba.so", "libb.so")), "liba.so": build_wasm()}
    linkage = link(tmp_path, {**members, "demo.libs/libb.so": build_wasm()}, tag)
    assert resolutions(linkage) == {
        "liba.so": ("liba.so", "added-directory"),
        "libb.so": (None, "missing"),
    }


def test_a_library_that_another_module_loaded_is_not_found_by_its_name(tmp_path: Path) -> None:
    other = NATIVE.replace("_native", "_other")
    members = {
        NATIVE: build_wasm(needed=("libmid.so",), runtime_path=("$ORIGIN",)),
        "demo/libmid.so": build_wasm(needed=("libx.so",)),
        "demo/libx.so": build_wasm(exports=("x",)),
        other: build_wasm(
            needed=("libx.so",), runtime_path=("$ORIGIN",), exports=("PyInit__other",)
        ),
    }
    linkage = link(tmp_path, members)
    found = {edge.path.rpartition("/")[2]: edge.rule for edge in linkage.edges}
    assert found["libmid.so"] is Rule.MISSING
    assert found["_other.cpython-314-wasm32-emscripten.so"] is Rule.RUNPATH


def test_the_first_abi_looked_into_the_folder_of_grafted_libraries(tmp_path: Path) -> None:
    members = {
        NATIVE.replace("314", "312"): build_wasm(needed=("libb.so",)),
        "demo.libs/libb.so": build_wasm(),
    }
    found = ("demo.libs/libb.so", "added-directory")
    linkage = link(tmp_path, members, OLD)
    assert resolutions(linkage) == {"libb.so": found}


def test_the_runtime_has_python_the_c_library_and_javascript(tmp_path: Path) -> None:
    provided = ("PyLong_FromLong", "malloc", "emscripten_get_now", "deflate", "sqlite3_open")
    linkage = link(tmp_path, {NATIVE: build_wasm(addresses=provided)})
    assert names(linkage) == []


def test_functions_and_addresses_that_nothing_defines_are_unresolved(tmp_path: Path) -> None:
    content = build_wasm(functions=("lost", "maybe"), addresses=("data",), weak=("maybe",))
    assert names(link(tmp_path, {NATIVE: content})) == ["data", "lost"]


def test_a_needed_library_defines_functions(tmp_path: Path) -> None:
    members = {
        NATIVE: build_wasm(needed=("libx.so",), functions=("x",)),
        "libx.so": build_wasm(exports=("x",)),
    }
    assert names(link(tmp_path, members)) == []
    del members["libx.so"]
    linkage = link(tmp_path / "less", members)
    assert names(linkage) == []
    (gap,) = linkage.unexplored
    assert (gap.count, gap.reason) == (1, "libx.so is not found")


def test_the_engine_compares_types_with_functions_of_the_runtime(tmp_path: Path) -> None:
    content = build_wasm(
        functions={"PyLong_FromLong": ((I32, I32), ()), "strlen": ((I32,), (I32,))}
    )
    assert link(tmp_path, {NATIVE: content}).mistyped == (
        MistypedFunction(
            path=f"lib/python3.14/site-packages/{NATIVE}",
            name="PyLong_FromLong",
            wanted="(i32 i32) -> nothing",
            provided="(i32) -> i32",
        ),
    )


@pytest.mark.parametrize(
    ("tag", "lacking"), [(TAG, ["invoke_vii"]), (MIDDLE, ["invoke_vii"]), (OLD, [])]
)
def test_javascript_calls_functions_that_may_throw_only_in_the_first_abi(
    tmp_path: Path, tag: str, lacking: list[str]
) -> None:
    native = NATIVE.replace("314", tag[2:5])
    assert names(link(tmp_path, {native: build_wasm(functions=("invoke_vii",))}, tag)) == lacking
