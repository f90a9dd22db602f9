"""The history of cells, night by night: the beginnings of trouble, and the last good nights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from binary_checks.errors import StoreError
from binary_checks.fleet.night import AXES, DECIDED, GOOD
from binary_checks.model import CellState


@dataclass(frozen=True, kw_only=True, slots=True)
class CellNight:
    """The result of one cell in one night: a row of the table `cells`."""

    night: str
    cell: str
    project: str
    axes: tuple[str, ...] = ()  # in the order of AXES
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
    def summary(self) -> str:
        """The check's first problem, or the reason if it has no problem, in one line."""
        sentence = self.sentence or self.reason
        return f"{self.path}: {sentence}" if self.path else sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The tables' content for some consecutive nights."""

    nights: tuple[str, ...]  # oldest first
    cells: Mapping[str, Mapping[str, CellNight]]  # cell -> night -> row
    failures: Mapping[tuple[str, str], tuple[FailedCheck, ...]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # SHA-256 -> part -> bytes
    open_nights: tuple[str, ...] = ()  # planned after the last collected night
    # Cell -> the checks to show if several report one fault, for the last night; default: all.
    leading: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The last night."""
        return self.nights[-1]

    def until(self, night: str) -> History:
        """Return the history as it was after that night."""
        return History(
            nights=tuple(each for each in self.nights if each <= night),
            cells=self.cells,
            failures=self.failures,
            parts=self.parts,
        )

    def tonight(self) -> Iterator[CellNight]:
        """Yield the cells of the last night, by name."""
        for rows in self.cells.values():
            if self.last in rows:
                yield rows[self.last]

    def before(self, cell: str) -> Iterator[CellNight]:
        """Yield earlier nights of a cell, the latest first."""
        rows = self.cells.get(cell, {})
        for night in reversed(self.nights[:-1]):
            if night in rows:
                yield rows[night]

    def find_last_decided(self, cell: str) -> CellNight | None:
        """Return the last earlier night whose state is about the package, or None."""
        return next((row for row in self.before(cell) if row.state in DECIDED), None)

    def find_last_good(self, cell: str) -> CellNight | None:
        """Return the last earlier night in which the cell passed, or None."""
        return next((row for row in self.before(cell) if row.state in GOOD), None)

    def find_since(self, row: CellNight) -> tuple[str, bool]:
        """Return the night in which the trouble began, and whether an older night proves that.

        A failure began in the first failed night after the last pass, even if nights in between
        were inconclusive. Any other state began with the first of the consecutive nights that have
        it.
        """
        since, ended = row.night, False
        for earlier in self.before(row.cell):
            if earlier.state is row.state:
                since = earlier.night
            elif row.state is not CellState.FAILED or earlier.state in GOOD:
                ended = True
                break
        return since, ended


# Reading a history from the tables, with three queries.

_PIECE = 2_000  # rows held at the same time
_AXES = f"[{', '.join(AXES)}]"
_TEXTS = (
    *("reason", "cause", "cause_kind", "evidence", "place", "file_name", "version", "url"),
    *("sha256", "uploaded", "serial", "facts", "log"),
)
_NUMBERS = (
    *("attempts", "problems", "warnings", "accepted", "not_inspected", "size", "seconds"),
    "peak_memory",
)
_CELLS = f"""
    select strftime(night, '%Y-%m-%d'), cell, coalesce(project, ''), state, {_AXES},
        {", ".join(f"coalesce({name}, '')" for name in _TEXTS)},
        {", ".join(f"coalesce({name}, 0)" for name in _NUMBERS)}
    from cells order by cell, night
"""  # noqa: S608 - our own names
_FAILURES = """
    select cell, strftime(night, '%Y-%m-%d'), "check", outcome, coalesce(reason, ''),
        coalesce(problems, 0), coalesce(path, ''), coalesce(sentence, ''), coalesce(stage, '')
    from checks where outcome in ('failed', 'broken', 'error')
    order by cell, night, outcome <> 'failed', "check", check_place, stage
"""
ASKED = ("cells", "checks", "parts")
"""The tables that a history is read from."""
_PARTS = "select sha256, part, max(size) from parts group by sha256, part order by sha256, part"


def read_history(connection: Any) -> History:
    """Return the content of the views `cells`, `checks` and `parts`.

    Raises StoreError for a state that this version does not know.
    """
    cells: dict[str, dict[str, CellNight]] = {}
    nights = set[str]()
    known: dict[Any, Any] = {}  # shares equal values, because most are repeated in each night
    for row in _stream(connection, _CELLS):
        night, cell, project, state, axes, *values = (known.setdefault(v, v) for v in row)
        if night is None or cell is None:
            raise StoreError(f"night {night}: a row without a night or a cell in its tables")
        nights.add(night)
        cells.setdefault(cell, {})[night] = CellNight(
            night=night,
            cell=cell,
            project=project,
            state=_know(state, night, cell),
            axes=axes,
            **dict(zip((*_TEXTS, *_NUMBERS), values, strict=True)),
        )
    failures: dict[tuple[str, str], list[FailedCheck]] = {}
    for cell, night, *values in _stream(connection, _FAILURES):
        if cell in cells:
            names = ("check", "outcome", "reason", "problems", "path", "sentence", "stage")
            found = FailedCheck(**dict(zip(names, values, strict=True)))
            failures.setdefault((cell, night), []).append(found)
    return History(
        nights=tuple(sorted(nights)),
        cells=cells,
        failures={key: tuple(found) for key, found in failures.items()},
        parts=_read_parts(connection, cells.values()),
    )


def _stream(connection: Any, question: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer, fetched in batches, with lists as tuples."""
    answer = connection.execute(question)
    while rows := answer.fetchmany(_PIECE):
        for row in rows:
            yield tuple(
                tuple(each or "" for each in value) if isinstance(value, list) else value
                for value in row
            )


def _know(state: str, night: str, cell: str) -> CellState:
    try:
        return CellState(state)
    except ValueError:
        known = "a newer version of binary-checks wrote it"
        raise StoreError(f"night {night}: {cell}: state {state!r} is unknown; {known}") from None


def _read_parts(
    connection: Any, cells: Iterable[dict[str, CellNight]]
) -> dict[str, dict[str, int]]:
    """Return the sizes of parts for the packages of these cells."""
    wanted = {row.sha256 for rows in cells for row in rows.values()}
    found: dict[str, dict[str, int]] = {}
    for sha256, part, size in _stream(connection, _PARTS):
        if sha256 in wanted:
            found.setdefault(sha256, {})[part] = int(size)
    return found
