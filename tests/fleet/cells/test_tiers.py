"""Tiers: few cells, each project's every value (pr) or pair of values (merge), in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import TIERS, choose_tier
from binary_checks.fleet.night import AXES, Cell

PYTHONS = ("3.11", "3.12", "3.13", "3.13t")
VARIANTS = ("cpu", "cu126", "cu130")


def cell(project: str = "torch", *, gpu: bool = False, **axes: Any) -> Cell:
    return Cell(id="-".join((project, *axes.values())), project=project, gpu=gpu, **axes)


def matrix(project: str = "torch") -> list[Cell]:
    return [
        cell(project, python=python, variant=variant, gpu=variant != "cpu")
        for python, variant in product(PYTHONS, VARIANTS)
    ]


def facets(cell: Cell) -> list[tuple[str, object]]:
    """What is to be covered of one cell, told apart from how the tiers tell it."""
    host = ("host", (cell.system, cell.architecture))
    own = ((axis, getattr(cell, axis)) for axis in AXES if axis != "project")
    return [host, *own, ("gpu", cell.gpu)]


def covered(cells: Sequence[Cell], size: int) -> set[tuple[object, ...]]:
    return {(each.project, *some) for each in cells for some in combinations(facets(each), size)}


def test_pr_has_every_value_once_and_the_gpu_stage_no_more_often_than_needed() -> None:
    assert [each.id for each in choose_tier(matrix(), "pr")] == [
        *("torch-3.11-cpu", "torch-3.12-cu126", "torch-3.13-cu130", "torch-3.13t-cpu"),
    ]


def test_one_cell_has_a_gpu_stage_where_any_has_one() -> None:
    pythons = [cell(python=python) for python in PYTHONS]
    gpu = cell(python="3.12", variant="cu126", gpu=True)
    assert gpu in choose_tier([*pythons, gpu], "pr")


def test_of_two_cells_that_make_each_other_needless_the_one_with_a_gpu_stage_goes() -> None:
    cells = [
        cell(python="3.11", variant="cu130", kind="conda"),
        cell(python="3.12", variant="cu130", kind="wheel", gpu=True),
        cell(python="3.12", variant="cu126", kind="conda", gpu=True),
        cell(python="3.11", variant="cpu", kind="wheel"),
    ]
    assert [each.gpu for each in choose_tier(cells, "pr")] == [False, True, False]


def test_merge_has_every_pair_and_no_cell_too_many_where_that_is_the_largest_pair() -> None:
    kinds = ("wheel", "conda")
    cells = [
        cell(python=python, variant=variant, kind=kind)
        for python, variant, kind in product(PYTHONS, VARIANTS, kinds)
    ]
    chosen = choose_tier(cells, "merge")
    assert covered(chosen, 2) == covered(cells, 2)
    assert len(chosen) == len(PYTHONS) * len(VARIANTS)


def test_nightly_has_all_and_a_tier_that_there_is_not_is_refused() -> None:
    assert choose_tier(matrix(), "nightly") == tuple(matrix())
    with pytest.raises(ProfileError, match="'weekly' is not one of: pr, merge, nightly"):
        choose_tier(matrix(), "weekly")


@pytest.mark.parametrize("tier", ["pr", "merge"])
def test_each_project_is_covered_for_itself(tier: str) -> None:
    both = [each for pair in zip(matrix("a"), matrix("b"), strict=True) for each in pair]
    chosen = choose_tier(both, tier)
    assert [each for each in chosen if each.project == "a"] == [*choose_tier(matrix("a"), tier)]
    assert [each for each in chosen if each.project == "b"] == [*choose_tier(matrix("b"), tier)]


def test_a_system_and_its_architecture_count_together() -> None:
    hosts = (("linux", "x86_64"), ("linux", "aarch64"), ("windows", "amd64"), ("windows", "arm64"))
    cells = [cell(system=system, architecture=of) for system, of in (*hosts, ("macos", "arm64"))]
    assert choose_tier(cells, "pr") == tuple(cells)  # four would have every name


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cells", [[], [cell()], [cell(python="3.12", variant="cpu")]])
def test_none_and_one_are_what_they_are(cells: list[Cell], tier: str) -> None:
    assert choose_tier(cells, tier) == tuple(cells)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(("a", "b")),
        st.sampled_from(("linux", "windows")),
        st.sampled_from(("x86_64", "arm64")),
        st.sampled_from(("", "3.11", "3.12", "3.13")),
        st.sampled_from(("", "cpu", "cu126", "cu130")),
        st.booleans(),
    ),
    max_size=40,
    unique_by=itemgetter(0, 1, 2, 3, 4),
)


def made(rows: Sequence[tuple[str, str, str, str, str, bool]]) -> list[Cell]:
    axes = ("project", "system", "architecture", "python", "variant", "gpu")
    return [
        Cell(id="-".join(row[:-1]), **dict[str, Any](zip(axes, row, strict=True))) for row in rows
    ]


@given(ROWS, st.sampled_from((("pr", 1), ("merge", 2))))
def test_a_tier_is_a_part_in_order_that_covers_and_has_none_to_spare(
    rows: list[tuple[str, str, str, str, str, bool]], asked: tuple[str, int]
) -> None:
    cells, (tier, size) = made(rows), asked
    chosen = choose_tier(cells, tier)
    assert [each for each in cells if each in chosen] == [*chosen]
    assert covered(chosen, size) == covered(cells, size)
    for needed in chosen:
        others = [each for each in chosen if each != needed]
        assert covered(others, size) != covered(cells, size)


def best(cells: Sequence[Cell], size: int) -> int:
    """The fewest cells that cover, found by trying all."""
    wanted = covered(cells, size)
    return next(
        number
        for number in range(len(cells) + 1)
        if any(covered(some, size) == wanted for some in combinations(cells, number))
    )


SMALL = st.lists(
    st.tuples(
        st.sampled_from(("3.11", "3.12", "3.13")),
        st.sampled_from(("cpu", "cu126", "cu130")),
        st.sampled_from(("wheel", "conda")),
    ),
    min_size=1,
    max_size=9,
    unique=True,
)


@pytest.mark.slow
@given(SMALL, st.sampled_from((("pr", 1), ("merge", 2))))
def test_a_tier_is_at_most_three_cells_larger_than_the_smallest(
    rows: list[tuple[str, str, str]], asked: tuple[str, int]
) -> None:
    cells, (tier, size) = [cell(python=p, variant=v, kind=k) for p, v, k in rows], asked
    assert best(cells, size) <= len(choose_tier(cells, tier)) <= best(cells, size) + 3
