"""Whether a stage of a cell needs another attempt, and when; purely, from those that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.states import GOOD, CellState
from binary_checks.model import Outcome, RunResult

MOST = 3
"""Attempts of a stage, with those that were in vain for no fault of the package."""
_MOST_FAILURES = 2
_TIMED_OUT = "timed-out"
_MOST_TIMED_OUT = 2  # a hang is mostly the same again, and each takes as long as the limit
_GROWTH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class NextAttempt:
    """An attempt that is still to be made."""

    number: int
    pause: float = 0.0  # seconds after the one before


def may_end_otherwise(state: CellState, result: RunResult | None, *, by_cause: bool) -> bool:
    """Whether another attempt at the same bytes may end otherwise.

    Static checks would find the same again. So a failure is worth it only where every problem is of
    a check that runs the package; what broke or was lost is, unless its cause speaks against it.
    """
    if state is CellState.FAILED:
        return _failed_at_run_time(result)
    return by_cause and state in (CellState.INFRA, CellState.LOST)


def _failed_at_run_time(result: RunResult | None) -> bool:
    """Whether all that failed runs the package, as the texts of the result's checks state."""
    if result is None:
        return False
    runs = {check.id for check in result.checks if check.runs_package}
    failed = {entry.check for _, entry in result.entries() if entry.outcome is Outcome.FAILED}
    return bool(failed) and failed <= runs


def plan_next(attempts: Sequence[Attempt], pause: float) -> NextAttempt | None:
    """The next attempt of a stage that has made these, by number; None: it has come to its end.

    A failure is tried again at once, and once; what broke or was lost with growing pauses.
    """
    number = 1 + max((each.number for each in attempts), default=0)
    # A stage that was blocked was not tried.
    tried = [each for each in attempts if each.state is not CellState.BLOCKED]
    if not tried:
        return NextAttempt(number=number)
    last = tried[-1]
    alike = sum(each.state is last.state and each.cause == last.cause for each in tried)
    if not last.again or any(each.state in GOOD for each in tried) or len(tried) >= MOST:
        return None
    if last.state is CellState.FAILED:
        failures = sum(each.state is CellState.FAILED for each in tried)
        return NextAttempt(number=number) if failures < _MOST_FAILURES else None
    if last.cause == _TIMED_OUT and alike >= _MOST_TIMED_OUT:
        return None
    return NextAttempt(number=number, pause=pause * _GROWTH ** (len(tried) - 1))
