"""The plan of a night: which bytes each cell stands for, frozen before the first cell runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.states import CellState

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
