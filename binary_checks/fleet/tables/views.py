"""The tables of all nights as four views, over which SQL reads and nothing else."""

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
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import table_name
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.rows import TABLES, Row

# Parquet files, written by DuckDB alone; only this room imports it.

Connection: TypeAlias = Any
"""A duckdb.DuckDBPyConnection."""

_SETTINGS: dict[str, Any] = {
    "memory_limit": "150MB",
    "threads": 2,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # else a table's name may be that of a variable of ours
    "temp_directory": "",  # what does not fit into memory ends, and fills no disk
}
_SORTED_BY = {
    "cells": ("cell",),
    "checks": ("check", "stage", "check_place", "cell"),  # rows beside each other are alike
    "objects": ("sha256", "path", "architecture"),
    "parts": ("sha256", "part"),
}


@contextmanager
def connect() -> Iterator[Connection]:
    """A database in memory, which loads no extension. Raises GatherError without DuckDB."""
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
    """Takes the rows of one table, which are as many as there are, and writes them sorted.

    They wait on disk, a line of JSON each: of equal rows in any order the file has the same bytes.
    """

    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self._lines = folder / f"{table}.ndjson"
        self._file = self._lines.open("w", encoding="ascii")

    def add(self, rows: Iterable[Row]) -> None:
        """Take some more rows."""
        for row in rows:
            self._file.write(json.dumps(row))
            self._file.write("\n")

    def close(self) -> None:
        """No more rows come."""
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
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: object) -> str:
    """A text as SQL has it."""
    return "'" + str(text).replace("'", "''") + "'"


def quote_path(path: Path) -> str:
    """A path as SQL has it where it may be a pattern of several: one that fits itself alone."""
    text = "".join(f"[{char}]" if char in "*?[" else char for char in str(path))
    return quote_text(text)


# The tables of all nights as four views, over which SQL reads and nothing else.

_OF_PACKAGES = ("objects", "parts")
"""What is written once for each package, by the first night that met it."""


@contextmanager
def open_tables(
    store: Store,
    *,
    tables: Collection[str] = TABLES,
    nights: Sequence[str] | None = None,
    project: str = "",
    apart: bool = False,
) -> Iterator[Connection]:
    """A connection whose views cells, checks, objects and parts have all closed nights.

    With ``tables`` there are those views alone, cells among them, and nothing is fetched for the
    others. With ``nights`` cells and checks have those closed nights alone, and no later night is
    looked at; with ``project`` all views have what is of its cells alone. It can open no other
    file. ``apart`` has it open copies, so that not even a fault of DuckDB's changes the store, for
    SQL of strangers. Raises StoreError for a store without a closed night, and for tables that
    cannot be read.
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
    """Say of rows that cannot be read that it is so: a table may hold others than its head says."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        for path, name in paths.items():
            reason = reason.replace(str(path), name)
        raise StoreError(f"{store.url}: its tables cannot be read: {reason}") from None


def _fetch(store: Store, names: Sequence[str]) -> None:
    """Have all of them at hand: a bucket that is far away answers many as fast as one."""

    def fetch(name: str) -> None:
        with store.local(name):
            pass

    fetch(names[0])
    for _ in ask_at_once(fetch, names[1:]):
        pass


def _copy(path: Path, name: str, folder: Path) -> Path:
    """A copy in the folder, which nobody may write to."""
    copied = folder / name
    copied.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, copied)
    copied.chmod(0o400)
    return copied


def _is_pattern(path: Path) -> bool:
    """Whether DuckDB takes it for a pattern, and then lists folders that are closed to it."""
    return any(char in str(path) for char in "*?[")


def known_packages(connection: Connection, store: Store, before: str) -> frozenset[str]:
    """The SHA-256 of each package whose objects an earlier night has."""
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
    """Make the view all_TABLE of these files, whose columns are those that are known."""
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
        raise StoreError(f"{store.url}: {name}: not a table that can be read: {reason}") from None


def _read(paths: Iterable[Path]) -> str:
    files = ", ".join(map(quote_path, paths))
    return f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"


def _find_damaged(connection: Connection, columns: str, paths: Mapping[Path, str]) -> str:
    """The first table that cannot be read by itself: DuckDB does not always say."""
    import duckdb

    for path, name in paths.items():
        try:
            connection.execute(f"SELECT {columns} FROM {_read([path])} LIMIT 0")  # noqa: S608
        except duckdb.Error:
            return name
    return "its tables"


def _narrow(connection: Connection, tables: Collection[str], project: str) -> None:
    """Make the views that SQL sees: of one project, and each package's objects once."""
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
    """Close all but these files to it, for good."""
    allowed = ", ".join(map(quote_text, paths))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
