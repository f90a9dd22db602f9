"""The state of an attempt whose process and result disagree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.fleet.night import ProcessEnd
from binary_checks.fleet.nights import decide_state
from binary_checks.model import CellState, Outcome, RunResult
from fixtures.fleet.short_results import fill_in

SHA256 = "1" * 64


def make_run(
    exit_code: int = 0, verdict: Outcome = Outcome.PASSED, sha256: str = SHA256
) -> RunResult:
    package = {"file_name": "a.whl", "sha256": sha256, "verdict": verdict.value}
    return fill_in({"exit_code": exit_code, "packages": [package]})


def decide(status: int, run: RunResult) -> tuple[CellState, str]:
    return decide_state(ProcessEnd(exit_status=status), run, SHA256)


CONTRADICTION = "its result states exit code {}, but the process ended with {}"
BLIND = "its result says not inspected, although its exit code is 0"
NOTHING = "its result is about 0 packages instead of one"


@pytest.mark.parametrize(
    ("status", "run", "state", "reason"),
    [
        (0, make_run(), CellState.PASSED, ""),
        (1, make_run(), CellState.LOST, CONTRADICTION.format(0, 1)),
        (6, make_run(), CellState.INFRA, CONTRADICTION.format(0, 6)),
        (0, make_run(1), CellState.LOST, CONTRADICTION.format(1, 0)),
        (0, make_run(verdict=Outcome.NOT_INSPECTED), CellState.LOST, BLIND),
        (0, make_run(sha256=""), CellState.LOST, "its result does not say which bytes were judged"),
        (0, replace(make_run(), packages=()), CellState.LOST, NOTHING),
        (0, make_run(0, Outcome.NOT_JUDGED), CellState.NOT_JUDGED, "verdict not judged"),
        (1, make_run(1, Outcome.NOT_JUDGED), CellState.NOT_JUDGED, "verdict not judged"),
        (1, make_run(1, Outcome.FAILED), CellState.FAILED, "verdict failed"),
    ],
)
def test_nothing_passes_of_which_they_say_different_things(
    status: int, run: RunResult, state: CellState, reason: str
) -> None:
    assert decide(status, run) == (state, reason)


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("field", ["unjudged", "unrun"])
def test_what_was_not_judged_neither_passed_nor_failed(status: int, field: str) -> None:
    run = make_run(status, Outcome.NOT_JUDGED)
    package = replace(run.packages[0], **{field: "its loader is not simulated"})
    run = replace(run, packages=(package,), complaints=("a.whl: not judged: …",))
    assert decide(status, run) == (CellState.NOT_JUDGED, "its loader is not simulated")


def test_a_process_that_ran_out_of_time_judged_nothing_whatever_it_wrote() -> None:
    end = ProcessEnd(exit_status=0, timed_out=True, seconds=1800.0)
    state, reason = decide_state(end, make_run(), SHA256)
    assert (state, reason) == (CellState.LOST, "")  # its cause says why
