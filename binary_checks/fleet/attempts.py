"""One attempt at one cell: the document that it leaves, which every table and page is made from."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.fleet.states import CellState
from binary_checks.model import RunResult

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
