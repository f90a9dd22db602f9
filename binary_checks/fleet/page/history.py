"""How the cells ended, night by night: since when they are broken, and what was last good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from binary_checks.fleet.states import DECIDED, GOOD, CellState


@dataclass(frozen=True, kw_only=True, slots=True)
class CellNight:
    """How one cell ended one night; a row of the table of cells."""

    night: str
    cell: str
    project: str
    axes: tuple[str, ...] = ()  # values, by AXES
    state: CellState
    reason: str = ""
    cause: str = ""
    cause_kind: str = ""
    evidence: str = ""
    attempts: int = 0
    problems: int = 0
    warnings: int = 0
    accepted: int = 0
    not_inspected: int = 0
    place: str = ""
    file_name: str = ""
    version: str = ""
    url: str = ""
    sha256: str = ""
    size: int = 0  # bytes
    uploaded: str = ""
    serial: str = ""
    facts: str = ""
    seconds: float = 0.0
    peak_memory: int = 0  # bytes
    log: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedCheck:
    """A check that a cell failed in one night."""

    check: str
    outcome: str = "failed"  # or broken, error
    reason: str = ""
    problems: int = 0
    path: str = ""
    sentence: str = ""
    stage: str = "cpu"

    @property
    def said(self) -> str:
        """Its first problem, or why there is none, in one line."""
        sentence = self.sentence or self.reason
        return f"{self.path}: {sentence}" if self.path else sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """All that the tables say of some nights in a row."""

    nights: tuple[str, ...]  # oldest first
    cells: Mapping[str, Mapping[str, CellNight]]  # by cell, then night
    failures: Mapping[tuple[str, str], tuple[FailedCheck, ...]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by SHA-256; bytes
    open_nights: tuple[str, ...] = ()  # planned after the last that was collected
    # Of the last night, by cell: which checks lead where several say one fault; else all count.
    leading: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The night that all this is about."""
        return self.nights[-1]

    def until(self, night: str) -> History:
        """The same, as it was known on that night's morning."""
        return History(
            nights=tuple(each for each in self.nights if each <= night),
            cells=self.cells,
            failures=self.failures,
            parts=self.parts,
        )

    def tonight(self) -> Iterator[CellNight]:
        """The cells of the last night, by name."""
        for rows in self.cells.values():
            if self.last in rows:
                yield rows[self.last]

    def before(self, cell: str) -> Iterator[CellNight]:
        """Earlier nights of a cell, the latest first."""
        rows = self.cells.get(cell, {})
        for night in reversed(self.nights[:-1]):
            if night in rows:
                yield rows[night]

    def find_last_decided(self, cell: str) -> CellNight | None:
        """The last night before that says something of the package."""
        return next((row for row in self.before(cell) if row.state in DECIDED), None)

    def find_last_good(self, cell: str) -> CellNight | None:
        """The last night before in which the cell passed."""
        return next((row for row in self.before(cell) if row.state in GOOD), None)

    def find_since(self, row: CellNight) -> tuple[str, bool]:
        """The first night of the trouble, and whether anything older is known to be without it.

        Of a failure that is the first one after the last pass, whatever the nights in between
        could not tell; of another state the first in a row.
        """
        since, ended = row.night, False
        for earlier in self.before(row.cell):
            if earlier.state is row.state:
                since = earlier.night
            elif row.state is not CellState.FAILED or earlier.state in GOOD:
                ended = True
                break
        return since, ended
