"""Writes the answer to a question as a table, as CSV, as Markdown or as JSON.

Whatever a cell of the answer holds, it stays text: it breaks no line, drives no terminal and no
build service, and is no formula of a spreadsheet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from binary_checks.documents.json_values import dump
from binary_checks.fleet.tables.table_questions import QueryAnswer
from binary_checks.lines import MOST_OF_A_RUN, cut, one_line
from binary_checks.reports.markdown import spell_cell

QUERY_SCHEMA = "binary-checks/query/1"
_WIDEST = 100
"""Characters of a cell of a table on a terminal."""
_FORMULA = ("=", "+", "-", "@")


def write_table(answer: QueryAnswer) -> Iterator[str]:
    """Columns for people, as many rows as a terminal may have."""
    found = list(islice(answer.rows, MOST_OF_A_RUN))
    rows = [[cut(spell(value), _WIDEST) for value in row] for row in found]
    heads = [one_line(name) for name in answer.columns]
    numbers = [any(map(_is_number, column)) for column in zip(*found, strict=True)]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows) if rows else ():
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        ]
        yield f"{one_line('  '.join(cells).rstrip())}\n"
    more = next(answer.rows, None) is not None
    count = f"the first {len(rows):,} rows; --csv has all" if more else _count(len(rows))
    yield f"{count}\n"


def write_csv(answer: QueryAnswer) -> Iterator[str]:
    """Comma-separated values, with a quote before any text that a spreadsheet would calculate."""
    yield _csv_line(map(_spell_csv, answer.columns))
    for row in answer.rows:
        yield _csv_line(map(_spell_csv, row))


def write_markdown(answer: QueryAnswer) -> Iterator[str]:
    """A table of Markdown."""
    heads = [name if name.isidentifier() else spell_cell(name) for name in answer.columns]
    yield f"| {' | '.join(heads)} |\n"
    yield f"|{' --- |' * len(heads)}\n"
    for row in answer.rows:
        yield f"| {' | '.join(spell_cell(spell(value)) for value in row)} |\n"


def write_json(answer: QueryAnswer) -> Iterator[str]:
    """A document with a row an object, in ASCII."""
    yield f'{{"schema": {dump(QUERY_SCHEMA)}, "columns": {dump(list(answer.columns))}, "rows": ['
    separator = ""
    for row in answer.rows:
        named = zip(answer.columns, map(_as_json, row), strict=True)
        yield f"{separator}\n{dump(dict(named))}"
        separator = ","
    yield "\n]}\n"


def spell(value: Any) -> str:
    """A value as one line; nothing is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (list, dict)):
        return one_line(dump(_as_json(value)))
    return one_line(str(value))


def _spell_csv(value: Any) -> str:
    text = spell(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


def _csv_line(cells: Any) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _as_json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, float):
        shown = f"{value:.7g}"
        return float(shown) if value - value == 0 else shown  # JSON has no infinity
    if isinstance(value, (str, int, bool, type(None))):
        return value
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"
