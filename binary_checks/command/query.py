"""``binary-checks query``: ask about the nights of a store."""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from binary_checks.command import SubcommandParser, guard, read_count, read_input, suggest
from binary_checks.documents.json_values import dump
from binary_checks.errors import ProfileError
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.table_questions import QueryAnswer, ask, shipped_queries
from binary_checks.fleet.tables.views import open_tables
from binary_checks.reports.markdown import format_cell
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line

_PURPOSE = "Ask the nights of a store: a shipped question by its name, or a SELECT of your own."
_OWN = 'or SQL: binary-checks query "SELECT state, count(*) FROM cells GROUP BY ALL" --store URL'
_LARGEST = 1 << 20  # bytes of SQL


def run(arguments: Sequence[str]) -> int:
    """Answer a question, or list the shipped questions; return the exit status."""
    return guard(lambda: _query(_read_options(arguments)))


def _query(options: argparse.Namespace) -> int:
    if not options.question:
        for line in _list_queries():
            print(one_line(line))
        return 0
    sql, given = _read_question(options.question), _read_parameters(options.parameters)
    if not options.store:
        raise ProfileError("query: give the store: --store URL")
    store = open_store(options.store)
    last = closed_nights(store)[-options.nights :] or None if options.nights else None
    ours = options.question in shipped_queries()
    with (
        open_tables(
            store, nights=last, project=options.project, trusted=ours, asked=sql
        ) as connection,
        # what fails answers nothing, and no time passes while a pager waits for its reader
        TemporaryFile("w+", encoding="utf-8", errors="backslashreplace", newline="") as kept,
    ):
        with _limits(), ThreadPoolExecutor(1) as pool:  # Ctrl-C does not interrupt DuckDB itself
            asking = partial(ask, connection, sql, given, ours=ours)
            answer = pool.submit(_write, asking, options.form, kept)
            try:
                answer.result(LONGEST)
            except TimeoutError:
                raise ProfileError(f"SQL: no answer within {LONGEST:g} seconds") from None
            finally:
                while not answer.done():
                    connection.interrupt()
                    wait([answer], 0.1)
        kept.seek(0)
        shutil.copyfileobj(kept, sys.stdout)
    return 0


def _write(
    asking: Callable[[], AbstractContextManager[QueryAnswer]], form: str, kept: IO[str]
) -> None:
    try:
        with asking() as answer:
            kept.writelines(_FORMS[form](answer))
            kept.flush()
    except MemoryError:
        raise ProfileError(f"SQL: the answer takes more than {_MEMORY >> 20} MiB") from None
    except OSError as error:
        raise ProfileError(f"SQL: the answer cannot be kept: {error.strerror}") from None


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks query", description=_PURPOSE)
    add = parser.add_argument
    add("question", metavar="NAME|SQL", nargs="?", help="or FILE.sql, or - for standard input")
    add(
        "parameters",
        metavar="NAME=VALUE",
        nargs="*",
        help="the value of $NAME, as night=2026-11-20",
    )
    parser.add_store(required=False)
    add("--nights", metavar="N", type=read_count, help="only the last N nights of cells and checks")
    add("--project", metavar="NAME", default="", help="only the cells of this project")
    form = parser.add_mutually_exclusive_group()
    for name, meaning in (
        ("json", "as a document"),
        ("csv", "all rows"),
        ("markdown", "for a chat"),
    ):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=meaning)
    parser.set_defaults(form="table")
    return parser.parse_intermixed_args(arguments)


def _read_question(question: str) -> str:
    """Return the SQL."""
    known = shipped_queries()
    if question in known:
        return known[question].sql
    if question == "-" or question.endswith(".sql"):
        where = "standard input" if question == "-" else f"{Path(question).name}: cannot be read"
        try:
            return read_input(question, _LARGEST, where).decode("utf-8")
        except UnicodeDecodeError:
            raise ProfileError(f"{where}: not UTF-8") from None
    if question.strip() and not question.replace("-", "").replace("_", "").isalnum():
        return question
    names = ", ".join(known)
    hint = suggest(question, known)
    raise ProfileError(f"query: {question}: not a question{hint} (known: {names})")


def _read_parameters(arguments: Iterable[str]) -> dict[str, str]:
    found = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.isidentifier():
            raise ProfileError(f"query: {argument}: not a parameter: give NAME=VALUE")
        found[name] = value
    return found


def _list_queries() -> Iterator[str]:
    for name, query in shipped_queries().items():
        yield f"{name:22}{query.description}"
        yield from (f"{'':22}  {each}: {what}" for each, what in query.parameters.items())
    yield from (
        "",
        _OWN,
        "tables: cells, checks, objects, parts; their columns are in docs/query.md",
    )


# Limits of an answer. A SELECT of a few characters can use any amount of memory, and DuckDB counts
# only the memory of its tables. Therefore the operating system limits what the process uses.

LONGEST = 60.0  # seconds to wait for an answer, once the tables are open
_MEMORY = 384 << 20  # bytes beside those in use before: DuckDB's tables take less than half
_WHOLE = 2 << 30  # bytes of an answer


@contextmanager
def _limits() -> Iterator[None]:
    """Limit the memory and the files of this process; only Linux enforces such limits."""
    if sys.platform != "linux":
        yield
        return
    import resource

    used = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    wanted = {resource.RLIMIT_DATA: used + _MEMORY, resource.RLIMIT_FSIZE: _WHOLE}
    before = {kind: resource.getrlimit(kind) for kind in wanted}
    try:
        for kind, most in wanted.items():
            soft, hard = before[kind]
            lower = [each for each in (most, soft, hard) if each != resource.RLIM_INFINITY]
            resource.setrlimit(kind, (min(lower), hard))
        yield
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


# Answers as a table, CSV, Markdown or JSON.
#
# Any cell of an answer stays text: it breaks no line, controls no terminal or build service, and no
# spreadsheet evaluates it.

QUERY_SCHEMA = "binary-checks/query/1"
_WIDEST = 100  # characters of a cell in a table on a terminal
_FORMULA = ("=", "+", "-", "@")


def write_table(answer: QueryAnswer) -> Iterator[str]:
    """Yield columns for people, with a limited number of rows."""
    found = list(islice(answer.rows, MOST_OF_A_RUN))
    rows = [[cut(format_value(value), _WIDEST) for value in row] for row in found]
    heads = [one_line(name) for name in answer.columns]
    numbers = [
        any(type(value) in (int, float) for value in column) for column in zip(*found, strict=True)
    ]
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
    """Return a value as one line; "" if it is missing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (bool, list, dict)):
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
    return str(value)


_FORMS = {"table": write_table, "csv": write_csv, "markdown": write_markdown, "json": write_json}
