"""How a cell's night ended, decided from its plan and all of its attempts; nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from binary_checks.model import RunResult
from binary_checks.model.outcomes import CellState
from binary_checks.profile.known import CellAxes

# A cell of the matrix: one configuration of one project, which is looked up and judged nightly.

DEFAULT_TIMEOUT = 1800.0
"""Seconds that one attempt may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell(CellAxes):
    """The values of its axes, and how it is run; an axis that the matrix lacks is empty."""

    id: str  # its axis values, joined by "-": letters, digits and ._+- alone, so it names files
    project: str  # the axis that every matrix has
    kind: str = "wheel"  # wheel, conda, libtorch; the other axes follow, as conditions name them
    package: str = ""  # what is looked up in the source: numpy, numpy<3, a path, a URL
    gpu: bool = False  # whether it has a second stage, on a GPU host
    place: str = ""  # of --place: image:oldest; "" for a fresh environment
    profile: str = ""  # of --profile
    options: tuple[str, ...] = ()  # further ones of binary-checks
    timeout: float = DEFAULT_TIMEOUT  # seconds

    @property
    def axes(self) -> dict[str, str]:
        """The values by the axes' names, without those that are empty."""
        return {name: value for name in AXES if (value := getattr(self, name))}


AXES = tuple(each.name for each in fields(CellAxes) if each.name != "id")
"""In the order in which they make an id, and in which pages and tables have them."""


# The plan of a night: which bytes each cell stands for, frozen before the first cell runs.

PLAN_SCHEMA = "binary-checks/plan/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCell:
    """A cell, and the file that it stands for this night; what is not known is empty."""

    cell: Cell
    state: CellState | None = None  # missing, stale or infra by the plan; None: it runs
    reason: str = ""  # why, in one line
    file_name: str = ""
    name: str = ""  # of the project, as the file's name has it
    version: str = ""
    url: str = ""  # without credentials; of a file of this host a file: URL
    sha256: str = ""  # of the file; every attempt and both stages judge these bytes alone
    size: int = 0
    uploaded: str = ""  # RFC 3339, as the index states it
    index: str = ""  # its URL, which may be shown
    serial: str = ""  # of the index's page, or the SHA-256 of its answer where it states none
    profile: str = ""  # its path among the plan's frozen ones; "" for one that is shipped, or none


@dataclass(frozen=True, kw_only=True, slots=True)
class NightPlan:
    """What a night judges. Nothing that changes later changes it."""

    night: str  # a date in UTC, 2026-11-20
    made: str  # RFC 3339, UTC
    cells_sha256: str  # of the cells file
    known_sha256: str = ""  # of the frozen known problems; "": there are none
    known_source: str = ""  # where they come from: a path, or a URL without what may be secret
    known_remark: str = ""  # why a copy of them holds, where their server did not answer
    known_complaint: str = ""  # why there are none although some were named: no waiver holds
    profiles: Mapping[str, str] = field(default_factory=dict)  # path -> SHA-256
    causes_sha256: str = ""  # of the project's causes, frozen too
    versions: Mapping[str, str] = field(default_factory=dict)  # of what planned it
    cells: tuple[PlannedCell, ...] = ()  # by id


# One attempt at one cell: the document that it leaves, which every table and page is made from.

ATTEMPT_SCHEMA = "binary-checks/attempt/1"
CPU, GPU = "cpu", "gpu"
"""The stages of a cell, and the queues of a night."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """How `binary-checks` ended as a process, and what it found."""

    night: str
    cell: str  # id
    stage: str = CPU
    number: int  # from 1, of its stage
    state: CellState
    reason: str = ""  # of a state that has no problems to show: one line
    cause: str = ""  # of causes.toml; "unknown"; "" for what passed
    cause_kind: str = ""  # infra, product, tool, unknown
    evidence: str = ""  # the line that the cause was told by
    again: bool = False  # whether another attempt at the same bytes may end otherwise
    started: str  # RFC 3339, UTC
    seconds: float  # wall time, by a clock that does not go back
    cpu_seconds: float = 0.0
    peak_memory: int = 0  # bytes, of the largest process
    exit_status: int | None = None  # None: it was killed, or never began
    signal: int = 0
    host: str = ""
    engine: str = "local"
    sha256: str = ""  # of the package, as the plan has it
    facts: str = ""  # the SHA-256 under which the store has its facts; "" for none
    log: str = ""  # SHA-256 of its log, which is named by it; "" for none
    command: tuple[str, ...] = ()  # what was run, with the names of this host taken out
    result: RunResult | None = None  # without the texts of its checks; None: it left none


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessEnd:
    """How the process of an attempt ended, and what it took."""

    exit_status: int | None  # None: a signal ended it, or it never began
    signal: int = 0
    timed_out: bool = False  # it was ended at the attempt's time limit
    seconds: float = 0.0  # wall time, by a clock that does not go back
    cpu_seconds: float = 0.0  # its own, and of those descendants that were waited for
    peak_memory: int = 0  # bytes, of the largest process
    memory: int = 0  # bytes of this machine; 0: not known
    oom_kills: int = 0  # how often the kernel killed for want of memory meanwhile, anywhere


# How a cell's night ended: ten words, and a letter for each, as colours alone tell too few.

GOOD = frozenset({CellState.PASSED, CellState.KNOWN})
"""After which a package may be published, and its second stage begin."""
DECIDED = GOOD | {CellState.FAILED}
"""States that say something of the package; the others do so of the night, or of nothing."""
WELL = GOOD | {CellState.FLAKY, CellState.BLOCKED}
"""States that leave a night green; a GPU stage that waits has a CPU stage that tells."""
LETTERS = {
    CellState.PASSED: "·",
    CellState.KNOWN: "k",
    CellState.FAILED: "X",
    CellState.FLAKY: "~",
    CellState.NOT_JUDGED: "?",
    CellState.INFRA: "I",
    CellState.LOST: "L",
    CellState.BLOCKED: "B",
    CellState.STALE: "S",
    CellState.MISSING: "\N{EN DASH}",
}


# How a cell's night ended, decided from its plan and all of its attempts; nothing is read here.

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
