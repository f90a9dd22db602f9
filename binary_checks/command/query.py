"""``binary-checks query``: asks the nights of a store, by a shipped question or by SQL."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser, suggest
from binary_checks.command.asking_apart import answer_apart, named
from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.tables.table_questions import ShippedQuery, shipped_queries
from binary_checks.lines import one_line

_PURPOSE = "Ask the nights of a store: a shipped question by its name, or a SELECT of your own."
_LARGEST = 1 << 20  # bytes, or characters, of SQL


def run(arguments: Sequence[str]) -> int:
    """Answer, or without a question list those that are shipped; returns the exit status."""
    return named(lambda: _query(arguments))


def _query(arguments: Sequence[str]) -> int:
    options = _read_options(arguments)
    if options.question:
        return _answer(options)
    for line in _list_queries(shipped_queries().values()):
        print(one_line(line))
    return 0


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks query", description=_PURPOSE)
    add = parser.add_argument
    add("question", metavar="NAME|SQL", nargs="?", help="or FILE.sql, or - for what stdin has")
    add("parameters", metavar="NAME=VALUE", nargs="*", help="for $NAME in it; night=2026-11-20")
    parser.add_store(required=False)
    add("--nights", metavar="N", type=int, help="of cells and checks the last N nights alone")
    add("--project", metavar="NAME", default="", help="what is of this project's cells alone")
    form = parser.add_mutually_exclusive_group()
    for name, meaning in (
        ("json", "as a document"),
        ("csv", "all rows"),
        ("markdown", "for a chat"),
    ):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=meaning)
    parser.set_defaults(form="table")
    options = parser.parse_intermixed_args(arguments)
    if options.nights is not None and options.nights < 1:
        raise ProfileError(f"--nights {options.nights}: give 1 or more")
    return options


def _answer(options: argparse.Namespace) -> int:
    sql, parameters = _choose(options.question, _read_parameters(options.parameters))
    if not options.store:
        raise ProfileError("give the store: --store URL")
    return answer_apart(
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


def _choose(question: str, given: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """The SQL, and what its parameters are."""
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
    """All parameters, those that are not given at their defaults."""
    for name in given:
        if name not in query.parameters:
            known = ", ".join(query.parameters) or "none"
            hint = suggest(name, query.parameters)
            raise ProfileError(f"{query.name}: no parameter {name}{hint} (it has: {known})")
    defaults = {
        each.name: each.default for each in query.parameters.values() if each.default is not None
    }
    return {**defaults, **given}


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
    if len(sql) > _LARGEST:  # cut, it might still be a question, but another one
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
