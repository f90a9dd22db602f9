"""Two jobs ran one cell: a better result never hides a worse one."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.night import Attempt, final_state
from binary_checks.fleet.nights import Merged, merge_night
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import NightAttempts
from binary_checks.model import CellState
from tests.fleet.nights.test_merging import NIGHT, PLAN, artifacts, attempt, fill, job, store

__all__ = ["artifacts", "store"]  # fixtures

PASSED, FAILED = attempt(), attempt(state=CellState.FAILED, exit_status=1)
INFRA = attempt(state=CellState.INFRA, exit_status=6, result=None)


def end_of(store: Store) -> CellState:
    """How the cell's night ends by what the store has."""
    planned = next(each for each in PLAN.cells if each.cell.id == "one")
    return final_state(planned, NightAttempts(store, NIGHT).read("one")).state


@pytest.mark.parametrize("order", [(PASSED, FAILED), (FAILED, PASSED)])
def test_two_jobs_that_disagree_leave_two_attempts_and_the_worse_one_decides(
    store: Store, artifacts: Path, order: tuple[Attempt, Attempt]
) -> None:
    for name, each in zip("ab", order, strict=True):
        fill(job(artifacts, name), each)
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 2
    assert end_of(store) is CellState.FAILED
    (line,) = merged.complaints
    assert f"{artifacts / 'a'}" in line
    assert f"{artifacts / 'b'}" in line
    assert line.endswith("on the same bytes: it counts as failed")
    assert merge_night(store, NIGHT, [artifacts]) == Merged(known=2)


@pytest.mark.parametrize("first", [PASSED, FAILED])
def test_a_folder_that_comes_later_does_not_hide_a_failure_either(
    store: Store, artifacts: Path, first: Attempt
) -> None:
    fill(job(artifacts, "a"), first)
    fill(job(artifacts, "b"), FAILED if first is PASSED else PASSED)
    assert merge_night(store, NIGHT, [artifacts / "a"]) == Merged(attempts=1)
    merged = merge_night(store, NIGHT, [artifacts / "b"])
    assert merged.attempts == (1 if first is PASSED else 0)
    assert "one: its cpu stage is " in merged.complaints[0]
    assert f"{store.url}, on the same bytes: it counts as failed" in merged.complaints[0]
    assert end_of(store) is CellState.FAILED


def test_a_job_that_failed_and_then_passed_is_flaky_as_anywhere(
    store: Store, artifacts: Path
) -> None:
    made = job(artifacts, "a")
    fill(made, FAILED)
    merge_night(store, NIGHT, [artifacts])
    fill(made, attempt(number=2, seconds=2.5))
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=1, known=1)
    assert end_of(store) is CellState.FLAKY


def test_a_job_that_ran_again_after_its_host_broke_is_believed(
    store: Store, artifacts: Path
) -> None:
    fill(job(artifacts, "a"), INFRA)
    fill(job(artifacts, "b"), PASSED)
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=2)
    assert end_of(store) is CellState.PASSED


def test_the_same_bytes_in_two_folders_are_one_attempt(store: Store, artifacts: Path) -> None:
    for name in "ab":
        fill(job(artifacts, name), PASSED)
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=1, known=1)
