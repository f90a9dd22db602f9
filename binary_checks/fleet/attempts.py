"""One attempt at one cell: the document that it leaves, which every table and page is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binary_checks.fleet.states import CellState

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
    command: tuple[str, ...] = ()  # what was run, with the names of this host taken out
    result: Any = None  # binary-checks/result/1 as a mapping, without `checks`; None: it left none
