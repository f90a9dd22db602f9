"""Cells chosen by globs, ids and shards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import choose_cells, shard
from binary_checks.fleet.night import Cell

CELLS = [
    Cell(id=f"torch-{python}-{variant}", project="torch", python=python, variant=variant)
    for python in ("3.12", "3.13", "3.13t")
    for variant in ("cpu", "cu126", "cu130")
]


def test_all_globs_have_to_match() -> None:
    assert [cell.id for cell in choose_cells(CELLS, where="variant=cu* python=3.13*")] == [
        *("torch-3.13-cu126", "torch-3.13-cu130", "torch-3.13t-cu126", "torch-3.13t-cu130"),
    ]
    assert choose_cells(CELLS) == tuple(CELLS)
    with pytest.raises(ProfileError, match=r"--where 'id=\*-cu999' matches no cell"):
        choose_cells(CELLS, where="id=*-cu999")


@given(st.integers(1, 60), st.integers(1, 70))
def test_every_cell_is_in_exactly_one_shard_and_shards_are_alike(count: int, parts: int) -> None:
    cells = [Cell(id=str(number), project="x") for number in range(count)]
    shards = [shard(cells, f"{number}/{parts}") for number in range(1, parts + 1)]
    assert sorted((cell.id for part in shards for cell in part), key=int) == [
        cell.id for cell in cells
    ]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_what_is_no_shard_is_refused(part: str) -> None:
    with pytest.raises(ProfileError, match="not I/N"):
        shard(CELLS, part)


def test_cells_are_chosen_by_id_and_an_unknown_one_is_refused() -> None:
    chosen = choose_cells(CELLS, ids=["torch-3.12-cpu", "torch-3.13-cpu"], where="python=3.13")
    assert [cell.id for cell in chosen] == ["torch-3.13-cpu"]
    assert len(choose_cells(CELLS, part="1/2")) == 5
    with pytest.raises(ProfileError, match=r"unknown cell 'torch-3\.12-cpy'; did you mean"):
        choose_cells(CELLS, ids=["torch-3.12-cpy"])
