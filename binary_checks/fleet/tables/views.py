"""Write Parquet tables, and open the tables of all nights as read-only views."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from binary_checks.errors import GatherError, StoreError
from binary_checks.fleet.night import LETTERS
from binary_checks.fleet.store import Store, ask_at_once, table_name
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.rows import TABLES, Row

# DuckDB, which only this folder imports.

Connection: TypeAlias = Any
"""A duckdb.DuckDBPyConnection."""

_SETTINGS: dict[str, Any] = {
    "memory_limit": "150MB",
    "threads": 2,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # otherwise SQL could read Python variables
    "temp_directory": "",  # a query that exceeds memory fails and fills no disk
}
_SORTED_BY = {
    "cells": ("cell",),
    # similar rows lie together, which compresses well
    "checks": ("check", "stage", "check_place", "cell"),
    "objects": ("sha256", "path", "architecture"),
    "parts": ("sha256", "part"),
}


@contextmanager
def connect() -> Iterator[Connection]:
    """Yield a database in memory that loads no extension. Raises GatherError without DuckDB."""
    try:
        import duckdb
    except ImportError:
        raise GatherError(
            "DuckDB is not installed: `pip install 'binary-checks[fleet]'` on Python 3.11 or later"
        ) from None
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        connection.execute("SET enable_progress_bar = false")
        yield connection


class TableWriter:
    """A writer that collects any number of rows of one table, and writes them sorted.

    Rows are kept on disk as lines of JSON. Equal rows in any order give the same bytes.
    """

    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self._lines = folder / f"{table}.ndjson"
        self._file = self._lines.open("w", encoding="ascii")

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            self._file.write(json.dumps(row))
            self._file.write("\n")

    def close(self) -> None:
        """Close the file of rows."""
        self._file.close()

    def write(self, connection: Connection, path: Path) -> None:
        """Write all rows as Parquet."""
        self.close()
        columns = TABLES[self.table]
        first = _SORTED_BY[self.table]
        order = (*first, *(name for name in columns if name not in first))
        types = ", ".join(f"{quote_name(name)}: '{kind}'" for name, kind in columns.items())
        source = (
            f"read_json({quote_path(self._lines)}, format = 'newline_delimited', "
            f"columns = {{{types}}})"
        )
        connection.execute(
            f"COPY (SELECT {', '.join(map(quote_name, columns))} FROM {source} "  # noqa: S608
            f"ORDER BY {', '.join(map(quote_name, order))}) TO {quote_text(path)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )
        self._lines.unlink()


def quote_name(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: object) -> str:
    """Return a text as an SQL string."""
    return "'" + str(text).replace("'", "''") + "'"


def quote_path(path: Path) -> str:
    """Return a path as an SQL string that, read as a glob, matches only that path."""
    text = "".join(f"[{char}]" if char in "*?[" else char for char in str(path))
    return quote_text(text)


# Views of all nights.

_OF_PACKAGES = ("objects", "parts")
"""Tables with one set of rows for each package, from the first night with that package."""


@contextmanager
def open_tables(
    store: Store,
    *,
    tables: Collection[str] = TABLES,
    nights: Sequence[str] | None = None,
    project: str = "",
    apart: bool = False,
) -> Iterator[Connection]:
    """Yield a connection with the views cells, checks, objects and parts of all closed nights.

    ``tables`` limits the views and the fetched files; it must include cells. ``nights``
    limits cells and checks to these closed nights, and ignores later ones; ``project`` limits all
    views to its cells. The connection can open no other files. With ``apart`` it opens copies, so
    that untrusted SQL cannot change the store even through a fault in DuckDB. Raises StoreError if
    no night is closed, and for tables that cannot be read.
    """
    every = closed_nights(store)
    if not every:
        raise StoreError(f"{store.url}: no night is closed yet: `binary-checks nightly collect`")
    chosen = every if nights is None else nights
    known = [night for night in every if night <= chosen[-1]]
    with ExitStack() as stack, connect() as connection:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        names = {
            table: [
                table_name(night, table) for night in (known if table in _OF_PACKAGES else chosen)
            ]
            for table in tables
        }
        _fetch(store, [name for each in names.values() for name in each])
        files = {
            table: {
                _copy(path, name, folder) if apart or _is_pattern(path) else path: name
                for name in names[table]
                for path in (stack.enter_context(store.local(name)),)
            }
            for table in tables
        }
        for table, paths in files.items():
            _make_view(connection, store, table, paths)
        _narrow(connection, tables, project)
        _lock(connection, [path for paths in files.values() for path in paths])
        named = {path: name for paths in files.values() for path, name in paths.items()}
        with _explained(store, named):
            yield connection


@contextmanager
def _explained(store: Store, paths: Mapping[Path, str]) -> Iterator[None]:
    """Raise StoreError for rows that cannot be read, although the table's header can."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        for path, name in paths.items():
            reason = reason.replace(str(path), name)
        raise StoreError(f"{store.url}: its tables cannot be read: {reason}") from None


def _fetch(store: Store, names: Sequence[str]) -> None:
    """Fetch the objects in parallel: from a bucket, many then take about as long as one."""

    def fetch(name: str) -> None:
        with store.local(name):
            pass

    fetch(names[0])
    for _ in ask_at_once(fetch, names[1:]):
        pass


def _copy(path: Path, name: str, folder: Path) -> Path:
    """Return a read-only copy in the folder."""
    copied = folder / name
    copied.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, copied)
    copied.chmod(0o400)
    return copied


def _is_pattern(path: Path) -> bool:
    """Return whether DuckDB would take the path for a glob and therefore search folders."""
    return any(char in str(path) for char in "*?[")


def known_packages(connection: Connection, store: Store, before: str) -> frozenset[str]:
    """Return the SHA-256 of packages whose objects an earlier night has."""
    nights = [night for night in closed_nights(store) if night < before]
    if not nights:
        return frozenset()
    with ExitStack() as stack:
        names = [table_name(night, "parts") for night in nights]
        paths = {stack.enter_context(store.local(name)): name for name in names}
        _make_view(connection, store, "parts", paths)
        stack.enter_context(_explained(store, paths))
        found = connection.execute("SELECT DISTINCT sha256 FROM all_parts").fetchall()
        return frozenset(sha256 for (sha256,) in found)


def _make_view(connection: Connection, store: Store, table: str, paths: Mapping[Path, str]) -> None:
    """Make the view all_TABLE of these files, with the columns that this version knows."""
    import duckdb

    columns = ", ".join(
        f"CAST({quote_name(name)} AS {kind}) AS {quote_name(name)}"
        for name, kind in TABLES[table].items()
    )
    select = f"SELECT {columns} FROM {_read(paths)}"  # noqa: S608 - names and paths of ours
    try:
        connection.execute(f"CREATE VIEW all_{table} AS {select}")
    except duckdb.Error as error:
        name = _find_damaged(connection, columns, paths)
        reason = str(error).partition("\n")[0]
        for path in paths:
            reason = reason.replace(str(path), name)
        raise StoreError(f"{store.url}: {name}: not a readable table: {reason}") from None


def _read(paths: Iterable[Path]) -> str:
    files = ", ".join(map(quote_path, paths))
    return f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"


def _find_damaged(connection: Connection, columns: str, paths: Mapping[Path, str]) -> str:
    """Find the first table that cannot be read; DuckDB's errors do not always name it."""
    import duckdb

    for path, name in paths.items():
        try:
            connection.execute(f"SELECT {columns} FROM {_read([path])} LIMIT 0")  # noqa: S608
        except duckdb.Error:
            return name
    return "its tables"


def _narrow(connection: Connection, tables: Collection[str], project: str) -> None:
    """Make the views for queries: of the project, with the objects of each package only once."""
    rows = ", ".join(f"('{state.value}', '{letter}')" for state, letter in LETTERS.items())
    connection.execute(f"CREATE TABLE letters AS FROM (VALUES {rows}) AS letters(state, letter)")
    chosen = f" WHERE project = {quote_text(project)}" if project else ""
    connection.execute(f"CREATE VIEW cells AS FROM all_cells{chosen}")
    of_cells = " WHERE cell IN (SELECT cell FROM cells)" if project else ""
    if "checks" in tables:
        connection.execute(f"CREATE VIEW checks AS FROM all_checks{of_cells}")
    of_packages = " WHERE sha256 IN (SELECT sha256 FROM cells)" if project else ""
    for table in filter(tables.__contains__, _OF_PACKAGES):
        connection.execute(
            f"CREATE VIEW {table} AS FROM all_{table}{of_packages} "
            "QUALIFY night = min(night) OVER (PARTITION BY sha256)"
        )


def _lock(connection: Connection, paths: Sequence[Path]) -> None:
    """Forbid the connection to open other files, irrevocably."""
    allowed = ", ".join(map(quote_text, paths))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
