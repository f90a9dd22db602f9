"""Doubling the worst inputs costs at most 2.2 times: counted in steps, as no clock does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from binary_checks import examine, judge
from fixtures.growth.judging import find_row, judge_facts
from fixtures.growth.row import Given
from fixtures.growth.steps import count_steps

MOST_GROWTH = 2.2


def judge_all(made: Path | Given, folder: Path) -> None:
    """Judge what a row has made, with every check."""
    verdicts: Iterable[object]
    if isinstance(made, Path):
        with examine(made) as examination:
            verdicts = list(judge(examination))
    else:
        verdicts = list(judge_facts(made, folder))
    assert verdicts


def steps_of(name: str, size: int, folder: Path) -> int:
    made = find_row(name).make(folder / f"{size}", size)
    return count_steps(lambda: judge_all(made, folder))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("DT_NEEDED x DT_RUNPATH", 100),
        ("DT_NEEDED x DT_RPATH, musl", 100),
        ("LC_LOAD_DYLIB x LC_RPATH", 100),
        ("LC_LOAD_DYLIB x absolute LC_RPATH", 100),
        ("DLLs x directories", 60),
        ("diamonds of re-exports", 12),
        ("one install name", 60),
        ("dependencies of conda", 100),
        ("ring of needs", 50),
    ],
)
def test_doubling_costs_at_most_twice_the_steps(tmp_path: Path, name: str, size: int) -> None:
    steps_of(name, 1, tmp_path)  # what is imported and compiled once is no growth
    fixed, once, twice = (steps_of(name, each, tmp_path) for each in (1, size, 2 * size))
    assert twice - fixed <= MOST_GROWTH * (once - fixed), (fixed, once, twice)
