"""The process that answers one question and ends with its parent: JSON in, the answer out.

A SELECT of a few characters can use any amount of memory, and DuckDB counts only the memory of its
tables. Therefore the operating system limits the whole process.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from typing import IO, Any

from binary_checks.command import complain
from binary_checks.command.query import guard_query
from binary_checks.documents.json_values import dump
from binary_checks.errors import MISUSED, ProfileError
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.table_questions import QueryAnswer, ask
from binary_checks.fleet.tables.views import open_tables
from binary_checks.reports.markdown import format_cell
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line

_LARGEST = 2 << 30  # bytes of an answer
_MEMORY = 512 << 20  # bytes: Python, DuckDB and 150 MB for its tables take less than half


def main() -> int:
    """Answer the question on standard input; return the exit status."""
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as output:
        return guard_query(lambda: _answer(asked, output))


def _answer(asked: Mapping[str, Any], output: IO[str]) -> int:
    store, project = open_store(asked["store"]), asked["project"]
    last = closed_nights(store)[-asked["nights"] :] or None if asked["nights"] else None
    ours = asked["ours"]
    with open_tables(store, nights=last, project=project, apart=not ours, often=ours) as connection:
        if project and connection.execute("FROM cells LIMIT 1").fetchone() is None:
            found = f"no cells of this project in {store.url}"
            raise ProfileError(f"--project {project!r:.80}: {found}")
        _limit(asked["seconds"])
        try:
            with ask(connection, asked["sql"], asked["given"], ours=ours) as answer:
                for line in _FORMS[asked["form"]](answer):
                    output.write(line)
                output.flush()
        except MemoryError:
            raise ProfileError(f"SQL: the answer takes more than {_MEMORY >> 20} MiB") from None
        except OSError as error:
            raise ProfileError(f"SQL: the answer cannot be kept: {error.strerror}") from None
    return 0


def _limit(seconds: float) -> None:
    """Limit the time that is left, and the memory and files of the process.

    Mapped files do not count as memory, and only Linux enforces that limit.
    """
    timer = threading.Timer(seconds, _give_up, [seconds])
    timer.daemon = True
    timer.start()
    if sys.platform != "win32":
        import resource

        limits = {
            resource.RLIMIT_DATA: _MEMORY,
            resource.RLIMIT_FSIZE: _LARGEST,
            resource.RLIMIT_CORE: 0,
        }
        for kind, most in limits.items():
            with suppress(OSError, ValueError):  # the limit is already lower
                resource.setrlimit(kind, (most, most))


def _give_up(seconds: float) -> None:
    complain(f"query: SQL: no answer within {seconds:g} seconds")
    sys.stderr.flush()
    os._exit(MISUSED)


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent keeps open until the parent ends."""
    with suppress(OSError):
        os.read(0, 1)
    os._exit(1)


# Answers as a table, CSV, Markdown or JSON.
#
# Any cell of an answer stays text: it breaks no line, controls no terminal or build service, and no
# spreadsheet evaluates it.

QUERY_SCHEMA = "binary-checks/query/1"
_WIDEST = 100
"""Characters of a cell in a table on a terminal."""
_FORMULA = ("=", "+", "-", "@")


def write_table(answer: QueryAnswer) -> Iterator[str]:
    """Yield columns for people, with a limited number of rows."""
    found = list(islice(answer.rows, MOST_OF_A_RUN))
    rows = [[cut(format_value(value), _WIDEST) for value in row] for row in found]
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
    yield (
        f"the first {len(rows):,} rows; --csv has all\n" if more else f"{count(len(rows), 'row')}\n"
    )


def write_csv(answer: QueryAnswer) -> Iterator[str]:
    """Yield comma-separated values; text that a spreadsheet would evaluate begins with a quote."""
    for row in chain((answer.columns,), answer.rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(map(_format_csv, row))
        yield line.getvalue()


def write_markdown(answer: QueryAnswer) -> Iterator[str]:
    """Yield a Markdown table."""
    heads = [name if name.isidentifier() else format_cell(name) for name in answer.columns]
    yield f"| {' | '.join(heads)} |\n"
    yield f"|{' --- |' * len(heads)}\n"
    for row in answer.rows:
        yield f"| {' | '.join(format_cell(format_value(value)) for value in row)} |\n"


def write_json(answer: QueryAnswer) -> Iterator[str]:
    """Yield a document with an object for each row, in ASCII."""
    yield f'{{"schema": {dump(QUERY_SCHEMA)}, "columns": {dump(list(answer.columns))}, "rows": ['
    separator = ""
    for row in answer.rows:
        named = zip(answer.columns, map(_as_json, row), strict=True)
        yield f"{separator}\n{dump(dict(named))}"
        separator = ","
    yield "\n]}\n"


def format_value(value: Any) -> str:
    """Return a value as one line, never empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (list, dict)):
        return one_line(dump(_as_json(value)))
    return one_line(str(value))


def _format_csv(value: Any) -> str:
    text = format_value(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


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


_FORMS = {"table": write_table, "csv": write_csv, "markdown": write_markdown, "json": write_json}


if __name__ == "__main__":
    sys.exit(main())
