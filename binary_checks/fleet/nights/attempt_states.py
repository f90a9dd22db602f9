"""Decides the state of one attempt from how its process ended and what it left; purely."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.exit_codes import (
    EMPTY,
    EXIT_CODES,
    FIT,
    INTERRUPTED,
    MISUSED,
    OUR_BUG,
    TRY_AGAIN,
)
from binary_checks.fleet.attempts import ProcessEnd
from binary_checks.fleet.states import GOOD, CellState
from binary_checks.lines import cut, one_line
from binary_checks.model import Outcome, PackageResult, RunResult
from binary_checks.model.outcomes import choose_cell_state

_LOST, _FAILED, _INFRA = CellState.LOST, CellState.FAILED, CellState.INFRA
_NEEDS_A_PERSON = {  # the same again would end the same
    OUR_BUG: "`binary-checks` broke",
    MISUSED: "`binary-checks` does not run as the cell says",
    EMPTY: "no check was selected",
}
Decided = tuple[CellState, str]
"""A state, and the reason for it where no problem shows it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What a process left behind in its folder."""

    run: RunResult | None = None  # its result; None: it left none, or none that can be read
    complaint: str = ""  # why there is none; one line
    last_line: str = ""  # of its log


def decide_state(end: ProcessEnd, left: Left, sha256: str) -> Decided:
    """Decide what one attempt at a package of that hash came to.

    A process that did not end by itself judged nothing, whatever it had written before: the
    attempt is lost. So it is where the process and its result contradict each other.
    """
    if end.timed_out:
        return _LOST, f"still running after {end.seconds:,.0f} seconds, and ended"
    if end.exit_status is None or end.exit_status not in EXIT_CODES:
        return _LOST, _name_death(end)
    if left.run is None:
        return _without_result(end.exit_status, left)
    if left.run.exit_code != end.exit_status:
        state = _INFRA if end.exit_status == TRY_AGAIN else _LOST
        said = f"its result says exit code {left.run.exit_code}, the process {end.exit_status}"
        return state, _because(said, left.last_line)
    return _with_result(left.run, sha256)


def _name_death(end: ProcessEnd) -> str:
    if end.exit_status is not None:
        return f"ended with status {end.exit_status:#x}, which is none of `binary-checks`"
    starved = "; the kernel killed for want of memory meanwhile" if end.oom_kills > 0 else ""
    return f"ended by signal {end.signal}{starved}"


def _without_result(status: int, left: Left) -> Decided:
    """An exit status alone says whose fault it is, but never that a package passed."""
    if status == TRY_AGAIN:
        return _INFRA, left.last_line or left.complaint
    if status in _NEEDS_A_PERSON:
        return _FAILED, _because(_NEEDS_A_PERSON[status], left.last_line)
    said = "interrupted" if status == INTERRUPTED else f"no result, with exit code {status}"
    return _LOST, _because(said, left.complaint)


def _because(said: str, why: str) -> str:
    return cut(one_line(f"{said}: {why}" if why else said))


def _with_result(run: RunResult, sha256: str) -> Decided:
    if len(run.packages) != 1:
        return _LOST, f"its result is about {len(run.packages)} packages, and not about one"
    package = run.packages[0]
    accepts = any(entry.accepted for entry in package.entries)
    state = choose_cell_state(run.exit_code, package.verdict, accepts=accepts)
    if state is _INFRA:
        return _INFRA, _find_error(run, package)
    if sha256 and package.sha256 and package.sha256 != sha256:
        return _INFRA, f"other bytes than planned: SHA-256 {package.sha256}, and not {sha256}"
    if run.exit_code == FIT and sha256 and not package.sha256:
        return _LOST, "its result does not say which bytes were judged"
    if state is _LOST:
        contradiction = f"its result says {package.verdict.value}, and yet exit code 0"
        return _LOST, "interrupted" if run.exit_code == INTERRUPTED else contradiction
    shown = state in GOOD or _shows_problem(package)
    return state, "" if shown else _find_failure(run, package)


def _shows_problem(package: PackageResult) -> bool:
    return any(entry.problems for entry in package.entries)


def _find_error(run: RunResult, package: PackageResult) -> str:
    errors = (e for e in package.entries if e.outcome is Outcome.ERROR)
    told = (f"{entry.check}: {entry.reason}" for entry in errors if entry.reason)
    return _because(next(told, "") or next(iter(run.complaints), "") or package.stopped, "")


def _find_failure(run: RunResult, package: PackageResult) -> str:
    """Why a run without problems is no pass: a check broke, or something could not be judged."""
    broken = (e for e in package.entries if e.outcome is Outcome.BROKEN)
    told = [f"{entry.check}: {entry.reason}" for entry in broken]
    told += [package.unjudged, package.unrun, *run.complaints, package.stopped]
    return _because(next(filter(None, told), "") or f"verdict {package.verdict.value}", "")
