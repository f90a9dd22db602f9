"""Doubling the worst inputs costs at most 2.2 times: counted in steps, as no clock does."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.declaring import find_checks
from binary_checks.model import Outcome
from fixtures.cost.judging import find_row, judge_made
from fixtures.cost.rows import ROWS
from fixtures.cost.steps import count_steps

MOST_GROWTH = 2.2


def steps_of(name: str, size: int, folder: Path) -> int:
    made = find_row(name).make(folder / f"{size}", size)
    return count_steps(lambda: list(judge_made(made, folder)))


def test_each_check_is_called_for_a_row(tmp_path: Path) -> None:
    called: set[str] = set()
    for number, row in enumerate(ROWS):
        folder = tmp_path / f"{number}"
        verdicts = list(judge_made(row.make(folder / "package", 3), folder))
        assert not [each for each in verdicts if each.outcome is Outcome.BROKEN], row.name
        called.update(each.check for each in verdicts if each.inspected)
    undecided = ["variant-label-undecided"]  # it never inspects anything
    assert [check.id for check in find_checks() if check.id not in called] == undecided


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("DT_NEEDED x DT_RUNPATH", 100),
        ("DT_NEEDED x DT_RPATH, musl", 100),
        ("LC_LOAD_DYLIB x LC_RPATH", 100),
        ("LC_LOAD_DYLIB x absolute LC_RPATH", 100),
        ("DLLs x directories", 60),
        ("diamonds of re-exports", 12),
        ("dependencies of conda", 100),
        ("ring of needs", 50),
        ("chain of forwarders", 40),
        ("WebAssembly needs x runtime path", 60),
        ("chain of WebAssembly modules", 20),
        ("versions of one library", 100),
        ("objects x undefined symbols", 30),
    ],
)
def test_doubling_costs_at_most_twice_the_steps(tmp_path: Path, name: str, size: int) -> None:
    steps_of(name, 1, tmp_path)  # what is imported and compiled once is no growth
    fixed, once, twice = (steps_of(name, each, tmp_path) for each in (1, size, 2 * size))
    assert twice - fixed <= MOST_GROWTH * (once - fixed), (fixed, once, twice)
