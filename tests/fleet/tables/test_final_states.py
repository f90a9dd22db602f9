from __future__ import annotations

from typing import Any

import pytest

from binary_checks.fleet.night import CPU, GPU, Attempt, Cell, PlannedCell, final_state
from binary_checks.model import CellState
from tests.fleet.nights.test_merging import attempt as make_attempt


def planned(*, gpu: bool = False, **fields: Any) -> PlannedCell:
    cell = Cell(id="demo-3.12", project="demo", gpu=gpu)
    return PlannedCell(**{"cell": cell, "sha256": "aa", **fields})


def attempt(state: str, number: int = 1, stage: str = CPU, **fields: Any) -> Attempt:
    said = {"sha256": "aa", "stage": stage, **fields}
    return make_attempt("demo-3.12", number, state=CellState(state), **said)


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (["passed"], "passed"),
        (["known"], "known"),
        (["failed"], "failed"),
        (["infra", "lost", "passed"], "passed"),
        (["infra", "infra", "lost"], "lost"),
        (["failed", "passed"], "flaky"),
        (["failed", "infra", "known"], "flaky"),
        (["failed", "failed"], "failed"),
        (["infra", "not judged"], "not judged"),
        (["failed", "not judged"], "failed"),
        ([], "lost"),
    ],
)
def test_the_last_conclusion_decides(states: list[str], end: str) -> None:
    attempts = [attempt(state, number) for number, state in enumerate(states, 1)]
    assert final_state(planned(), attempts).state.value == end


def test_a_failure_is_not_undone_by_a_retry_without_a_result_and_flaky_says_why_it_failed() -> None:
    failed, passed = attempt("failed", cause="check", reason="it hung"), attempt("passed", 2)
    for later in ("infra", "lost"):
        end = final_state(planned(), [failed, attempt(later, 2, cause="network")])
        assert (end.state, end.cause) == (CellState.FAILED, "check")
    end = final_state(planned(), [failed, passed])
    assert (end.reason, end.last) == ("it hung", {CPU: passed})


def test_attempts_count_once_and_in_the_order_of_their_numbers() -> None:
    attempts = [attempt("passed", 10), attempt("failed", 9)]
    assert final_state(planned(), attempts) == final_state(planned(), reversed(attempts))
    assert len(final_state(planned(), [attempt("failed"), attempt("failed")]).attempts) == 1


@pytest.mark.parametrize("state", ["missing", "stale", "infra"])
def test_the_plan_stands_whatever_was_run(state: str) -> None:
    plan = planned(state=CellState(state), reason="nothing is published")
    end = final_state(plan, [attempt("passed")])
    assert (end.state.value, end.reason, end.attempts) == (state, "nothing is published", ())


def test_an_attempt_at_other_bytes_or_of_a_stage_that_the_cell_lacks_does_not_count() -> None:
    end = final_state(planned(), [attempt("passed", sha256="bb")])
    assert (end.state, end.attempts) == (CellState.LOST, ())
    other = [attempt("failed", sha256="bb"), attempt("passed", 2)]
    assert final_state(planned(), other).state is CellState.PASSED
    not_planned = [attempt("passed"), attempt("failed", 1, GPU)]
    assert final_state(planned(), not_planned).state is CellState.PASSED


@pytest.mark.parametrize(
    ("cpu", "gpu", "end"),
    [
        (["passed"], ["passed"], "passed"),
        (["passed"], ["failed"], "failed"),
        (["passed"], ["failed", "passed"], "flaky"),
        (["known"], ["passed"], "known"),
        (["passed"], ["blocked"], "blocked"),
        (["passed"], ["infra"], "infra"),
        (["passed"], [], "blocked"),
        (["failed", "passed"], ["passed"], "flaky"),
        (["failed"], ["blocked"], "failed"),
        (["failed"], [], "failed"),
        (["infra"], ["blocked"], "infra"),
    ],
)
def test_a_second_stage_joins_the_first(cpu: list[str], gpu: list[str], end: str) -> None:
    attempts = [attempt(state, number) for number, state in enumerate(cpu, 1)]
    attempts += [attempt(state, number, GPU) for number, state in enumerate(gpu, 1)]
    assert final_state(planned(gpu=True), attempts).state.value == end
