"""Query the tables: with shipped queries, or with untrusted SQL, which can only read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.tables.views import Connection, explained

_AT_ONCE = 1_000  # rows
_WRITES = re.compile(
    '"name": "([^"]*(?:COPY|INSERT|DELETE|UPDATE|MERGE_INTO|EXPORT|ATTACH|EXECUTE|LOGGING|PROFILING'
    '|CHECKPOINT)[^"]*|(?:CREATE|ALTER|DROP|SET|LOAD)[^"]*)"'
)
"""Matches steps in a query plan that do more than read."""
_PARAMETER = re.compile(
    r"^-- \$(?P<name>\w+)(?: = (?P<default>.*?))?: (?P<meaning>.*)$", re.MULTILINE
)
NIGHT = "night"
"""The parameter that is the last night by default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryAnswer:
    """The columns of an answer, and its rows, which are read while iterating."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def ask(
    connection: Connection,
    sql: str,
    given: Mapping[str, str],
    *,
    ours: bool = False,
) -> Iterator[QueryAnswer]:
    """Run one SELECT with these parameters; ``$night`` is the last night by default.

    Unless it is ``ours``, the SQL is first checked to see that it only reads. Raises ProfileError
    with a message of one line for faulty SQL, for anything but one SELECT, and if memory does not
    suffice; StoreError for a table that cannot be read.
    """
    try:
        with explained(connection, by_sql=True):
            statement = _require_select(connection, sql)
            parameters = _choose_parameters(connection, sql, statement.named_parameters, given)
            if not ours:
                _require_reading(connection, sql, parameters)
            connection.execute(statement, parameters or None)
            columns = _distinguish([each[0] for each in connection.description or ()])
            yield QueryAnswer(columns=columns, rows=_fetch(connection))
    except (OverflowError, RecursionError) as error:  # DuckDB's intervals exceed Python's
        raise ProfileError(
            f"SQL: the answer has values that Python cannot represent: {error}"
        ) from None


def _require_select(connection: Connection, sql: str) -> Any:
    """Return the statement. Raises ProfileError unless it is one SELECT.

    COPY, SET and similar statements could write, or allow what the connection forbids.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise ProfileError(f"SQL: {len(statements)} statements: give one SELECT")
    if statements[0].type.name != "SELECT":
        raise ProfileError(f"SQL: {statements[0].type.name}: only a SELECT is answered")
    return statements[0]


def _require_reading(connection: Connection, sql: str, parameters: Mapping[str, str]) -> None:
    """Raise ProfileError if the plan writes: since DuckDB 2.0, WITH may contain a COPY."""
    rows = connection.execute(f"EXPLAIN (FORMAT json) {sql}", parameters or None).fetchall()
    if found := _WRITES.search(rows[-1][1]):
        raise ProfileError(f"SQL: {found[1].strip()}: only queries that read are allowed")


def _choose_parameters(
    connection: Connection, sql: str, wanted: set[str], given: Mapping[str, str]
) -> dict[str, str]:
    if unknown := sorted(given.keys() - wanted):
        known = ", ".join(sorted(wanted)) or "none"
        raise ProfileError(f"{unknown[0]}: the SQL has no such parameter (known: {known})")
    if NIGHT in given:
        _require_night(connection, given[NIGHT])
    stated = (each.groupdict() for each in _PARAMETER.finditer(sql))
    defaults = {each["name"]: each["default"] for each in stated if each["default"] is not None}
    chosen = {**{name: defaults[name] for name in wanted & defaults.keys()}, **given}
    if NIGHT in wanted and NIGHT not in chosen:
        (chosen[NIGHT],) = connection.execute("SELECT max(night)::VARCHAR FROM cells").fetchone()
    if lacking := sorted(wanted - chosen.keys()):
        raise ProfileError(f"SQL: no value for ${lacking[0]}: give {lacking[0]}=VALUE")
    return chosen


def _require_night(connection: Connection, night: str) -> None:
    """Raise ProfileError for a night without tables, for which "0 rows" would be misleading."""
    having = "max(night)::VARCHAR, bool_or(night::VARCHAR = $night)"
    row = connection.execute(f"SELECT {having} FROM all_cells", {NIGHT: night}).fetchone()  # noqa: S608
    newest, found = row or ("none", False)
    if not found:
        raise ProfileError(f"night={night}: there is no such closed night; the last is {newest}")


def _fetch(connection: Connection) -> Iterator[tuple[Any, ...]]:
    while rows := connection.fetchmany(_AT_ONCE):
        yield from rows


def _distinguish(names: Sequence[str]) -> tuple[str, ...]:
    """Return unique column names; repeated ones get a number."""
    found: dict[str, None] = {}
    numbers = dict.fromkeys(names, 1)
    for name in names:
        new = name
        while new in found:
            numbers[name] += 1
            new = f"{name}_{numbers[name]}"
        found[new] = None
    return tuple(found)


# Shipped queries: SQL files whose comments at the top describe the query and its parameters.

_FOLDER = Path(__file__).with_name("queries")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShippedQuery:
    """A query that is part of this package."""

    description: str
    parameters: Mapping[str, str]  # name -> meaning, with the default
    sql: str


@cache
def shipped_queries() -> Mapping[str, ShippedQuery]:
    """Return all shipped queries by name, sorted."""
    paths = sorted(_FOLDER.glob("*.sql"))
    return {path.stem: _parse(path.read_text(encoding="utf-8")) for path in paths}


def _parse(sql: str) -> ShippedQuery:
    parameters = {}
    for each in _PARAMETER.finditer(sql):
        default = f" (default {each['default'] or repr('')})" if each["default"] is not None else ""
        parameters[each["name"]] = f"{each['meaning']}{default}"
    description = sql.partition("\n")[0].removeprefix("-- ")
    return ShippedQuery(description=description, parameters=parameters, sql=sql)
