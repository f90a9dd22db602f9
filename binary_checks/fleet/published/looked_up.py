"""What a source says of one cell: the file that it stands for, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.states import CellState


@dataclass(frozen=True, kw_only=True, slots=True)
class LookedUp:
    """The answer for one cell; what is not said is empty."""

    cell: Cell
    state: CellState | None = None  # missing or infra; None: there is a file
    reason: str = ""
    file_name: str = ""
    name: str = ""
    version: str = ""
    url: str = ""  # with what its server is to see
    hashes: Mapping[str, str] = field(default_factory=dict)  # by algorithm
    size: int | None = None
    uploaded: str = ""  # ISO 8601, as the index states it
    modified: str = ""  # as HTTP spells it
    index: str = ""  # may be shown
    serial: str = ""


def fail(cells: Iterable[Cell], error: BinaryChecksError | str, index: str = "") -> list[LookedUp]:
    """The answer for cells whose source could not be asked."""
    said = str(error)
    return [LookedUp(cell=cell, state=CellState.INFRA, reason=said, index=index) for cell in cells]


def miss(cell: Cell, reason: str, index: str = "", serial: str = "") -> LookedUp:
    """The answer for a cell that nothing is published for."""
    return LookedUp(cell=cell, state=CellState.MISSING, reason=reason, index=index, serial=serial)
