"""How a cell's night ended, decided from its plan and all of its attempts; nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from binary_checks.fleet.attempts import CPU, GPU, Attempt
from binary_checks.fleet.plan import PlannedCell
from binary_checks.fleet.states import DECIDED, GOOD, CellState

_WORST_FIRST = (
    CellState.FAILED,
    CellState.LOST,
    CellState.INFRA,
    CellState.NOT_JUDGED,
    CellState.BLOCKED,
    CellState.FLAKY,
    CellState.KNOWN,
    CellState.PASSED,
)
_NOTHING = {
    CellState.LOST: "no result",
    CellState.BLOCKED: "its GPU stage has not run: no host with a GPU took it",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEnd:
    """The state of a cell when its night is over, and the attempts that led to it."""

    state: CellState
    reason: str = ""
    cause: str = ""
    cause_kind: str = ""
    evidence: str = ""
    attempts: tuple[Attempt, ...] = ()  # those that count, by stage and number
    last: Mapping[str, Attempt] = field(default_factory=dict)  # by stage: the one that decides

    @property
    def unrun(self) -> bool:
        """Whether nothing has run of it; while the night is open, that is no loss yet."""
        return self.state is CellState.LOST and not self.attempts


def final_state(planned: PlannedCell, attempts: Iterable[Attempt]) -> CellEnd:
    """Decide how the cell's night ended.

    What the plan itself decided stands (missing, stale, infra). Else of each stage the last
    attempt that came to a conclusion decides (passed, known, failed): a failure is not undone by
    a retry that was lost. Failed, and then passed on the same bytes, is flaky. Without a
    conclusion the last attempt decides, and without any attempt the cell is lost.

    Where the first stage did not pass, it stands for both; else the worse of the two, and a
    second stage that no host took is blocked. An attempt at other bytes than the plan's does not
    count, nor does a second document of one attempt.
    """
    if planned.state is not None:
        return CellEnd(state=planned.state, reason=planned.reason)
    counted = _select(planned, attempts)
    stages = [end_stage([each for each in counted if each.stage == CPU], CPU)]
    if planned.cell.gpu and stages[0].state in GOOD | {CellState.FLAKY}:
        stages.append(end_stage([each for each in counted if each.stage == GPU], GPU))
    worst = min(stages, key=lambda end: _WORST_FIRST.index(end.state))
    last = {stage: each for end in stages for stage, each in end.last.items()}
    return CellEnd(
        state=worst.state,
        reason=worst.reason,
        cause=worst.cause,
        cause_kind=worst.cause_kind,
        evidence=worst.evidence,
        attempts=counted,
        last=last,
    )


def _select(planned: PlannedCell, attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Each attempt at the planned bytes, once."""
    found: dict[tuple[str, int], Attempt] = {}
    for each in attempts:
        if each.cell == planned.cell.id and each.sha256 == planned.sha256:
            found.setdefault((each.stage, each.number), each)
    return tuple(found[key] for key in sorted(found))


def is_conclusive(state: CellState) -> bool:
    """Return whether it says something of the package, and not of its night alone."""
    return state in DECIDED | {CellState.FLAKY}


def rank(state: CellState) -> int:
    """Return a number that is the smaller the worse a stage ended."""
    return _WORST_FIRST.index(state)


def end_stage(attempts: Sequence[Attempt], stage: str) -> CellEnd:
    """Return how one stage ended that has made these attempts, in order, and no others."""
    if not attempts:
        state = CellState.BLOCKED if stage == GPU else CellState.LOST
        return CellEnd(state=state, reason=_NOTHING[state])
    conclusive = [each for each in attempts if each.state in DECIDED]
    decides = (conclusive or attempts)[-1]
    state, told = decides.state, decides
    if state in GOOD and any(each.state is CellState.FAILED for each in conclusive):
        state = CellState.FLAKY
        told = next(each for each in reversed(conclusive) if each.state is CellState.FAILED)
    return CellEnd(
        state=state,
        reason=told.reason,
        cause=told.cause,
        cause_kind=told.cause_kind,
        evidence=told.evidence,
        last={stage: decides},
    )
