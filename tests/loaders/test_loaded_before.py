"""A library of another distribution counts as loaded if an import leads to that distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from binary_checks.loaders import simulate
from binary_checks.loaders.required_packages import (
    LoadedBefore,
    find_loaded_before,
    is_in_doubt,
    leave_open,
)
from binary_checks.model import Claims, Member, Package, Rule
from binary_checks.python_code.named_files import LoadingWords
from fixtures.linking import extension, library, target
from fixtures.values import symbols, wheel

MODULE = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def other(name: str, *paths: str, requires: tuple[str, ...] = ()) -> Package:
    """Return a distribution with some modules and one library, lib<name>.so."""
    module = f"{name}/lib/lib{name}.so"
    return wheel(
        f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        objects=(library(module, name=f"lib{name}.so"),),
        members=tuple(Member(path=path, archive_name=path) for path in (*paths, module)),
        claims=Claims(requirements=requires),
    )


TORCH = other("torch", "torch/__init__.py", "torch/utils/data.py", requires=("cuda",))
CUDA = other("cuda")


def find(imports: set[str], *needed: str) -> Mapping[str, tuple[str, ...]]:
    """Return what is loaded before a module without a search path that needs some libraries."""
    others = (TORCH, CUDA)
    linkage = simulate(wheel(objects=(extension(*needed),)), target(), others=others)
    assert is_in_doubt(linkage)
    words = LoadingWords(frozenset(imports), loading="", everywhere=False)
    found = find_loaded_before(linkage, words, others, target())
    assert found.doubtful == frozenset()
    return found.loads


@pytest.mark.parametrize("name", ["torch", "torch.utils.data"])
def test_what_is_imported_has_loaded_its_libraries(name: str) -> None:
    assert find({name}, "libtorch.so") == {MODULE: ("wheel:torch:torch/lib/libtorch.so",)}


def test_so_has_what_that_requires() -> None:
    assert find({"torch"}, "libcuda.so") == {MODULE: ("wheel:cuda:cuda/lib/libcuda.so",)}


@pytest.mark.parametrize("name", ["torchvision", "torch.lib", "demo"])
def test_what_no_import_names_has_not(name: str) -> None:
    assert find({name}, "libtorch.so", "libcuda.so") == {}


def test_what_own_code_may_load_is_there_for_symbols_and_the_need_stays_open() -> None:
    needer = extension("libown.so", imports=symbols("own_call", "lost_call"))
    own = library("demo/lib/libown.so", name="libown.so", exports=symbols("own_call"))
    package = wheel(objects=(needer, own))
    linkage = simulate(package, target())
    words = LoadingWords(frozenset(), loading="ctypes in demo/__init__.py", everywhere=False)
    before = find_loaded_before(linkage, words, (), target())
    assert before.doubtful == {"demo/lib/libown.so"}
    loaded = simulate(package, target(), first_loads=before.loads)
    assert [item.name for item in loaded.unresolved] == ["lost_call"]
    (edge,) = leave_open(loaded, before.doubtful).edges
    assert (edge.resolved, edge.rule, edge.elsewhere) == (
        None,
        Rule.MISSING,
        ("demo/lib/libown.so",),
    )


@pytest.mark.parametrize("known", [{"unknown": "a.py decides"}, {"may_come_with": ("torch",)}])
def test_of_what_others_may_bring_or_running_code_tells_nothing_is_presumed(
    known: dict[str, Any],
) -> None:
    objects = (extension("libown.so"), library("demo/lib/libown.so", name="libown.so"))
    linkage = simulate(wheel(objects=objects), target())
    linkage = replace(linkage, edges=tuple(replace(edge, **known) for edge in linkage.edges))
    words = LoadingWords(frozenset(), loading="ctypes in demo/__init__.py", everywhere=False)
    assert find_loaded_before(linkage, words, (), target()) == ({}, frozenset())


def test_what_a_repair_tool_put_there_no_code_loads() -> None:
    needer = extension("libown-0a1b2c3d.so")
    graft = library("demo.libs/libown-0a1b2c3d.so", name="libown-0a1b2c3d.so")
    linkage = simulate(wheel(objects=(needer, graft)), target())
    words = LoadingWords(frozenset(), loading="ctypes in demo/__init__.py", everywhere=False)
    assert find_loaded_before(linkage, words, (), target()) == ({}, frozenset())


def test_where_nothing_needs_what_lies_elsewhere_nothing_is_in_doubt() -> None:
    alone = wheel(objects=(extension("libc.so.6"),))
    assert not is_in_doubt(simulate(alone, target(), others=(TORCH,)))


def test_of_a_library_that_lies_in_many_places_one_counts() -> None:
    def find_all(count: int) -> LoadedBefore:
        needing = (library(f"demo/a{n}/liba{n}.so", "libx.so") for n in range(count))
        there = (library(f"demo/b{n}/libx.so", name="libx.so") for n in range(count))
        linkage = simulate(wheel(objects=(*needing, *there)), target())
        words = LoadingWords(frozenset(), loading="ctypes in demo/__init__.py", everywhere=False)
        return find_loaded_before(linkage, words, (), target())

    first, *others = (f"demo/b{n}/libx.so" for n in range(3))
    assert find_all(3).doubtful == {first, *others}
    assert find_all(3).loads == {f"demo/a{n}/liba{n}.so": (first,) for n in range(3)}
