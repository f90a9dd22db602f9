"""The attempt that follows from those already made."""

from __future__ import annotations

import pytest

from binary_checks.fleet.night import Attempt
from binary_checks.fleet.nights import NextAttempt, may_end_otherwise, plan_next
from binary_checks.model import CellState, RunResult
from fixtures.fleet.short_results import fill_in
from tests.fleet.nights.test_merging import attempt


def make_attempts(*states: str, **said: object) -> list[Attempt]:
    return [
        attempt(number=number, state=CellState(state), **{"again": True, **said})
        for number, state in enumerate(states, 1)
    ]


@pytest.mark.parametrize(
    ("states", "following"),
    [
        ((), NextAttempt(number=1)),
        (("infra",), NextAttempt(number=2, pause=30.0)),
        (("lost", "infra"), NextAttempt(number=3, pause=120.0)),
        (("lost", "lost", "lost"), None),
        (("failed",), NextAttempt(number=2)),
        (("failed", "failed"), None),
        (("infra", "failed"), NextAttempt(number=3)),
        (("passed",), None),
        (("known",), None),
        (("failed", "passed"), None),
    ],
)
def test_each_state_has_its_next_attempt(
    states: tuple[str, ...], following: NextAttempt | None
) -> None:
    assert plan_next(make_attempts(*states), 30.0) == following


@pytest.mark.parametrize("state", ["infra", "lost", "failed"])
def test_nothing_is_tried_again_that_must_end_the_same(state: str) -> None:
    assert plan_next(make_attempts(state, again=False), 30.0) is None


def test_what_ran_out_of_time_twice_is_not_given_a_third_time() -> None:
    first, second = make_attempts("lost", "lost", cause="timed-out")
    other, _ = make_attempts("lost", "lost")
    assert plan_next([first], 30.0) == NextAttempt(number=2, pause=30.0)
    assert plan_next([other, second], 30.0) == NextAttempt(number=3, pause=120.0)
    assert plan_next([first, second], 30.0) is None


def make_result(*failed: str) -> RunResult:
    checks = [{"id": "import-fails", "runs_package": True}, {"id": "missing-library"}]
    entries = [{"check": check, "outcome": "failed"} for check in failed]
    passed = {"check": "broken-signature", "outcome": "passed"}
    return fill_in({"checks": checks, "packages": [{"entries": [*entries, passed]}]})


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        (("import-fails",), True),
        (("missing-library",), False),
        (("import-fails", "missing-library"), False),  # that one stays, whatever the other does
        ((), False),
    ],
)
def test_a_failure_is_worth_another_attempt_where_all_of_it_came_from_running_the_package(
    failed: tuple[str, ...], *, again: bool
) -> None:
    result = make_result(*failed)
    assert may_end_otherwise(CellState.FAILED, result, by_cause=False) is again


@pytest.mark.parametrize("by_cause", [True, False])
def test_what_broke_is_tried_again_where_its_cause_allows_it(*, by_cause: bool) -> None:
    assert may_end_otherwise(CellState.LOST, None, by_cause=by_cause) is by_cause
    assert may_end_otherwise(CellState.INFRA, None, by_cause=by_cause) is by_cause
    assert not may_end_otherwise(CellState.FAILED, None, by_cause=by_cause)
    assert not may_end_otherwise(CellState.NOT_JUDGED, None, by_cause=by_cause)
