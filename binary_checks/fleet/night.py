"""Data classes of a night: cells, plans, attempts, and the end of a cell's night."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from binary_checks.model import CellState, PackageResult, RunResult
from binary_checks.profile import CellAxes

# A cell of the matrix: one configuration of one project, which is looked up and judged nightly.

DEFAULT_TIMEOUT = 1800.0
"""Seconds that one attempt may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell(CellAxes):
    """A cell: its axis values, and how it is run; axes that the matrix does not have are empty."""

    id: str  # axis values joined by "-": letters, digits and ._+- only, because it names files
    project: str  # the axis of every matrix
    # wheel, conda, libtorch, or one that the profile adds; further axes are those of conditions
    kind: str = "wheel"
    package: str = ""  # what to look for in the source: numpy, numpy<3, a path, a URL
    gpu: bool = False  # whether it has a second stage, on a GPU host
    place: str = ""  # value of --place: image:oldest; "" for a fresh environment
    profile: str = ""  # value of --profile
    options: tuple[str, ...] = ()  # more options of binary-checks
    timeout: float = DEFAULT_TIMEOUT  # seconds

    @property
    def axes(self) -> dict[str, str]:
        """The axes that are not empty, by name."""
        return {name: value for name in AXES if (value := getattr(self, name))}


AXES = tuple(each.name for each in fields(CellAxes) if each.name != "id")
"""The axes in the order of ids, pages and tables."""


# The plan of a night: each cell's file, chosen and frozen before the first cell runs.

PLAN_SCHEMA = "binary-checks/plan/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCell:
    """A cell and its file in one night; unknown values are empty."""

    cell: Cell
    state: CellState | None = None  # missing, stale or infra; None if the cell runs
    reason: str = ""  # of the state, in one line
    file_name: str = ""
    name: str = ""  # the project, as the file's name contains it
    version: str = ""
    url: str = ""  # without credentials; a file: URL for a file of this host
    sha256: str = ""  # of the file; all attempts of both stages judge only these bytes
    size: int = 0
    uploaded: str = ""  # RFC 3339, as the index states it
    index: str = ""  # its URL, without secrets
    serial: str = ""  # of the index's page, or the SHA-256 of an answer without one
    profile: str = ""  # path among the plan's frozen files; "" for a shipped profile, or none


@dataclass(frozen=True, kw_only=True, slots=True)
class NightPlan:
    """The plan of a night: its cells, and the hashes of its inputs. It never changes."""

    night: str  # a date in UTC, 2026-11-20
    made: str  # RFC 3339, UTC
    cells_sha256: str  # of the cells file
    known_sha256: str = ""  # of the frozen known problems; "" if there are none
    known_source: str = ""  # a path, or a URL without its secret parts
    known_remark: str = ""  # why a copy is used, if the server did not answer
    known_complaint: str = ""  # why a named list could not be used, so that no waiver holds
    profiles: Mapping[str, str] = field(default_factory=dict)  # path -> SHA-256
    causes_sha256: str = ""  # of the project's own causes, which are frozen, too
    versions: Mapping[str, str] = field(default_factory=dict)  # of the programs that planned it
    cells: tuple[PlannedCell, ...] = ()  # by id


# One attempt at one cell: the document from which every table and page is made.

ATTEMPT_SCHEMA = "binary-checks/attempt/1"
CPU, GPU = "cpu", "gpu"
"""The stages of a cell, and the queues of a night."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt at a cell: the end of its `binary-checks` process, and the result."""

    night: str
    cell: str  # id
    stage: str = CPU
    number: int  # of its stage, counted from 1
    state: CellState
    reason: str = ""  # in one line, if no problem shows the reason of the state
    cause: str = ""  # from causes.toml; "unknown"; "" if it passed
    cause_kind: str = ""  # infra, product, tool, unknown
    evidence: str = ""  # the line from which the cause was recognised
    again: bool = False  # whether another attempt at the same bytes may end differently
    started: str  # RFC 3339, UTC
    seconds: float  # wall time, by a monotonic clock
    cpu_seconds: float = 0.0
    peak_memory: int = 0  # of the largest process, in bytes
    exit_status: int | None = None  # None: it was killed, or never started
    signal: int = 0
    host: str = ""
    engine: str = "local"
    sha256: str = ""  # of the package, from the plan
    facts: str = ""  # SHA-256 under which the store has its facts; "" for none
    log: str = ""  # SHA-256 of its log, which is part of the log's name; "" for none
    command: tuple[str, ...] = ()  # without names of this host
    # without the texts of its checks; None if the process wrote none
    result: RunResult | None = None

    @property
    def packages(self) -> tuple[PackageResult, ...]:
        """The packages in the result, if there is one."""
        return self.result.packages if self.result else ()

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        if self.signal:
            return f"signal {self.signal}"
        return "no exit status" if self.exit_status is None else f"exit {self.exit_status}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessEnd:
    """The end of an attempt's process, with the time and the memory that it used."""

    exit_status: int | None  # None: a signal ended it, or it never started
    signal: int = 0
    timed_out: bool = False  # it was ended at the time limit
    seconds: float = 0.0  # wall time, by a monotonic clock
    cpu_seconds: float = 0.0  # of the process and the descendants that it waited for
    peak_memory: int = 0  # of the largest process, in bytes
    memory: int = 0  # of this machine in bytes; 0: not known
    # processes that the kernel killed for lack of memory meanwhile, on the whole host
    oom_kills: int = 0


# Groups of states, and a letter for each state, because colours alone distinguish too few.

GOOD = frozenset({CellState.PASSED, CellState.KNOWN})
"""States after which a package may be published, and its second stage may begin."""
DECIDED = GOOD | {CellState.FAILED}
"""States that judge the package; the other states only describe the night."""
CONCLUSIVE = DECIDED | {CellState.FLAKY}
"""The same of a cell or a stage, which may have several attempts."""
WELL = GOOD | {CellState.FLAKY, CellState.BLOCKED}
"""States that need no attention; if a GPU stage waits, its CPU stage decides."""
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


# The end of a cell's night, decided from its plan and all of its attempts.

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
    CellState.BLOCKED: "its GPU stage has not run: no host with a GPU was available",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEnd:
    """The state of a cell when its night is over, and the attempts that led to it."""

    state: CellState
    reason: str = ""
    cause: str = ""
    cause_kind: str = ""
    evidence: str = ""
    attempts: tuple[Attempt, ...] = ()  # attempts that count, by stage and number
    last: Mapping[str, Attempt] = field(default_factory=dict)  # stage -> the attempt that decides

    @property
    def unrun(self) -> bool:
        """Whether the cell is lost without an attempt; an open night may still make one."""
        return self.state is CellState.LOST and not self.attempts

    @property
    def waits(self) -> bool:
        """Whether an attempt is missing that an open night may still make."""
        return self.unrun or self.state is CellState.BLOCKED


def final_state(planned: PlannedCell, attempts: Iterable[Attempt]) -> CellEnd:
    """Decide how the cell's night ended.

    A state that the plan decided stays (missing, stale, infra). Otherwise the last conclusive
    attempt of each stage decides (passed, known, failed), so that a lost retry does not undo a
    failure. A stage that failed, and then passed on the same bytes, is flaky. Without a conclusive
    attempt the last one decides, and without any attempt the cell is lost.

    If the first stage did not pass, the cell gets the state of that stage. Otherwise the worse of
    the two stages decides, and a second stage that no host ran is blocked. An attempt at bytes
    other than the planned ones does not count, nor does a second document of one attempt.
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
    """Return the attempts at the planned bytes, without duplicates."""
    found: dict[tuple[str, int], Attempt] = {}
    for each in attempts:
        if each.cell == planned.cell.id and each.sha256 == planned.sha256:
            found.setdefault((each.stage, each.number), each)
    return tuple(found[key] for key in sorted(found))


def rank(state: CellState) -> int:
    """Return the state's rank: the worse the state, the smaller the number."""
    return _WORST_FIRST.index(state)


def end_stage(attempts: Sequence[Attempt], stage: str) -> CellEnd:
    """Return how a stage ended after these attempts, which are in order."""
    if not attempts:
        state = CellState.BLOCKED if stage == GPU else CellState.LOST
        return CellEnd(state=state, reason=_NOTHING[state])
    conclusive = [each for each in attempts if each.state in DECIDED]
    decides = (conclusive or attempts)[-1]
    state, shown = decides.state, decides
    if state in GOOD and any(each.state is CellState.FAILED for each in conclusive):
        state = CellState.FLAKY
        shown = next(each for each in reversed(conclusive) if each.state is CellState.FAILED)
    return CellEnd(
        state=state,
        reason=shown.reason,
        cause=shown.cause,
        cause_kind=shown.cause_kind,
        evidence=shown.evidence,
        last={stage: decides},
    )
