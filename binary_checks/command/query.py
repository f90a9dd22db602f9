"""``binary-checks query``: ask about the nights of a store, in a separate process."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from binary_checks.command import SubcommandParser, guard, read_count, suggest
from binary_checks.errors import FIT, GatherError, ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.tables.table_questions import ShippedQuery, shipped_queries
from binary_checks.processes import SAFE_PATH
from binary_checks.safe_text import one_line

# ``binary-checks query``: answer a shipped question, or SQL, about the nights of a store.

_PURPOSE = "Ask the nights of a store: a shipped question by its name, or a SELECT of your own."
_LARGEST = 1 << 20  # bytes, or characters, of SQL


def run(arguments: Sequence[str]) -> int:
    """Answer a question, or list the shipped questions; return the exit status."""
    return guard_query(lambda: _query(arguments))


def _query(arguments: Sequence[str]) -> int:
    options = _read_options(arguments)
    if not options.question:
        for line in _list_queries(shipped_queries().values()):
            print(one_line(line))
        return 0
    sql, parameters = _choose(options.question, _read_parameters(options.parameters))
    if not options.store:
        raise ProfileError("give the store: --store URL")
    return answer_in_process(
        {
            "sql": sql,
            "given": dict(parameters),
            "ours": options.question in shipped_queries(),
            "store": options.store,
            "nights": options.nights,
            "project": options.project,
            "form": options.form,
        }
    )


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


def _choose(question: str, given: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Return the SQL and its parameters."""
    known = shipped_queries()
    if question in known:
        return known[question].sql, _complete(known[question], given)
    if question == "-":
        return _read_stdin(), given
    if question.endswith(".sql"):
        return _read_file(Path(question)), given
    if question.strip() and not question.replace("-", "").replace("_", "").isalnum():
        return question, given
    names = ", ".join(known)
    raise ProfileError(f"{question}: not a question{suggest(question, known)} (known: {names})")


def _complete(query: ShippedQuery, given: Mapping[str, str]) -> dict[str, str]:
    """Return all parameters, with defaults for those not given."""
    for name in given:
        if name not in query.parameters:
            known = ", ".join(query.parameters) or "none"
            hint = suggest(name, query.parameters)
            raise ProfileError(f"{query.name}: no parameter {name}{hint} (it has: {known})")
    return {**query.defaults, **given}


def _read_parameters(arguments: Iterable[str]) -> dict[str, str]:
    found = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.isidentifier():
            raise ProfileError(f"{argument}: not a parameter: give NAME=VALUE")
        found[name] = value
    return found


def _read_stdin() -> str:
    sql = sys.stdin.read(_LARGEST + 1)
    if len(sql) > _LARGEST:  # if it were cut off, it could be a different question
        raise ProfileError(f"standard input: more than {_LARGEST:,} characters")
    return sql


def _read_file(path: Path) -> str:
    where = f"{path.name}: cannot be read"
    try:
        return read_named(path, _LARGEST, where).decode("utf-8")
    except UnicodeDecodeError:
        raise ProfileError(f"{where}: not UTF-8") from None


def _list_queries(queries: Iterable[ShippedQuery]) -> Iterator[str]:
    for query in queries:
        yield f"{query.name:22}{query.description}"
        for each in query.parameters.values():
            default = "" if each.default is None else f" (default {each.default})"
            yield f"{'':22}  {each.name}: {each.meaning}{default}"
    yield ""
    yield 'or SQL: binary-checks query "SELECT state, count(*) FROM cells GROUP BY ALL" --store URL'
    yield "tables: cells, checks, objects, parts; their columns are in docs/query.md"


# The process that answers. Its answer goes into a file, so that a question that fails answers
# nothing, and so that no time passes while a pager waits for its reader.

LONGEST = 60.0
"""Seconds to wait for an answer, once the tables are open."""
_PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks.command.query_process")


def guard_query(act: Callable[[], int]) -> int:
    """Call ``act``; print an error of ours with the subcommand, and return its exit status."""

    def prefixed() -> int:
        try:
            return act()
        except ProfileError as error:
            raise ProfileError(f"query: {str(error).removeprefix('query: ')}") from None

    return guard(prefixed)


def answer_in_process(asked: Mapping[str, Any]) -> int:
    """Print the answer once it is complete, and return the exit status.

    Raises GatherError if a signal ended the process, and errors of writing.
    """
    # the process may be killed before it removes its files
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answer, complaints = Path(folder, "answer"), Path(folder, "complaints")
        with answer.open("wb") as output, complaints.open("wb") as errors:
            process = subprocess.Popen(
                _PROGRAM,
                env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,  # Ctrl-C reaches only this process, which ends the child
            )
            assert process.stdin is not None
            try:
                with suppress(OSError):  # if the child has ended, its status says why
                    process.stdin.write(json.dumps({**asked, "seconds": LONGEST}).encode() + b"\n")
                    process.stdin.flush()
                status = process.wait()
            finally:
                process.kill()
                process.wait()
                process.stdin.close()
        if status < 0:
            name = signal.Signals(-status).name
            raise GatherError(f"query: the process that answers was ended by {name}")
        sys.stderr.write(complaints.read_text("utf-8", "replace"))
        if status == FIT:
            with answer.open(encoding="utf-8", newline="") as lines:
                shutil.copyfileobj(lines, sys.stdout)
    return status
