"""Reads a history out of the tables: the nights that a page looks back on, in four questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from binary_checks.errors import StoreError
from binary_checks.fleet.cell import AXES
from binary_checks.fleet.page.history import CellNight, FailedCheck, History
from binary_checks.fleet.states import CellState

_PIECE = 2_000  # rows that are held at once
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
    """Everything that views named cells, checks and parts have.

    Raises StoreError for what no version of ours knows.
    """
    cells: dict[str, dict[str, CellNight]] = {}
    nights = set[str]()
    known: dict[Any, Any] = {}  # most of what one night says the next one says again
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
    """The rows of an answer, a piece at a time, with lists as tuples."""
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
    """Sizes by part of the packages that these cells stood for."""
    wanted = {row.sha256 for rows in cells for row in rows.values()}
    found: dict[str, dict[str, int]] = {}
    for sha256, part, size in _stream(connection, _PARTS):
        if sha256 in wanted:
            found.setdefault(sha256, {})[part] = int(size)
    return found
