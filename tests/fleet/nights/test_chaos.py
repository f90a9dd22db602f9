"""Coordinators and cells are killed at random until their nights are done: nothing is lost."""

from __future__ import annotations

import sys

import pytest

from fixtures.fleet.chaos import harm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds its victims in /proc")


@pytest.mark.parametrize("seed", [7])
@pytest.mark.slow
def test_thirty_kills_lose_no_cell_and_none_counts_twice(seed: int) -> None:
    pytest.importorskip("duckdb", reason="makes the tables of each night")
    nights = [*harm(30, seed)]  # each verified, else it raises
    assert sum(night.killed for night in nights) == 30
    # Where one is killed after another has ended well, as many as at first are started again.
    for night in nights:
        assert night.runs <= night.together * (night.kills["coordinator"] + 1)
