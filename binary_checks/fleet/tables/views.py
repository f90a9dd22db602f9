"""Write Parquet tables, and open the tables of all nights as read-only views."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from binary_checks.errors import GatherError, ProfileError, StoreError
from binary_checks.fleet.night import LETTERS
from binary_checks.fleet.store import Store, ask_at_once, table_name
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.rows import TABLES
from binary_checks.model import CellState

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
    "checks": ("check_id", "stage", "check_place", "cell"),
    "objects": ("sha256", "path", "architecture"),
    "parts": ("sha256", "part"),
}


@contextmanager
def connect(spill: Path | None = None) -> Iterator[Connection]:
    """Yield a database in memory that loads no extension, and may spill into the folder.

    Raises GatherError without DuckDB.
    """
    try:
        import duckdb
    except ImportError:
        raise GatherError(
            "DuckDB is not installed: `pip install 'binary-checks[fleet]'` on Python 3.11 or later"
        ) from None
    own = {"temp_directory": str(spill), "max_temp_directory_size": "2GB"} if spill else {}
    with duckdb.connect(":memory:", config={**_SETTINGS, **own}) as connection:
        connection.execute("SET enable_progress_bar = false")
        if spill:
            connection.execute("SET operator_memory_limit = '24MB'")
        try:
            yield connection
        except RuntimeError as error:  # which DuckDB makes of a signal's KeyboardInterrupt
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from None


def write_table(connection: Connection, table: str, lines: Path, path: Path) -> None:
    """Write rows, which are lines of JSON, as Parquet.

    Equal rows in any order give the same bytes. Raises GatherError if the disk fails.
    """
    import duckdb

    columns = TABLES[table]
    first = _SORTED_BY[table]
    order = (*first, *(name for name in columns if name not in first))
    types = ", ".join(f"{quote_name(name)}: '{kind}'" for name, kind in columns.items())
    source = f"read_json({quote_text(lines)}, format = 'newline_delimited', columns = {{{types}}})"
    try:
        connection.execute(
            f"COPY (SELECT {', '.join(map(quote_name, columns))} FROM {source} "  # noqa: S608
            f"ORDER BY {', '.join(map(quote_name, order))}) TO {quote_text(path)} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )
    except duckdb.IOException as error:
        reason = str(error).partition("\n")[0]
        raise GatherError(f"{path.name}: cannot be written: {reason}") from None


def quote_name(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: object) -> str:
    """Return a text as an SQL string."""
    return "'" + str(text).replace("'", "''") + "'"


# Views of all nights.

_SQL = Path(__file__).with_name("views.sql")
_OF_PACKAGES = ("objects", "parts")  # one set of rows for each package, from its first night
_USING = re.compile("past|failures|mended|broken|faults")
"""Matches SQL that uses a view which is computed once, or a view made from it."""
_WORST_FIRST = (
    *(CellState.FAILED, CellState.LOST, CellState.INFRA, CellState.NOT_JUDGED, CellState.MISSING),
    *(CellState.STALE, CellState.FLAKY, CellState.BLOCKED, CellState.KNOWN, CellState.PASSED),
)
_MISTAKE = re.compile(r"[A-Z][\w ]* Error: ")
"""Matches DuckDB's messages about faulty SQL; messages about faulty files begin differently."""
_STORED = re.compile(r"[^\s'\"]*?(night=\d{4}-\d{2}-\d{2}/\w+\.parquet)")


@contextmanager
def open_tables(  # noqa: PLR0913 - what is read, and for which questions
    store: Store,
    *,
    tables: Collection[str] = TABLES,
    nights: Sequence[str] | None = None,
    project: str = "",
    trusted: bool = True,
    asked: str = "",
) -> Iterator[Connection]:
    """Yield a connection with the tables of all closed nights, and the views of `views.sql`.

    ``tables`` limits the fetched files; other tables are empty. ``nights`` limits cells and checks
    to these closed nights, and ignores later ones; ``project`` limits all views to its cells. The
    connection opens copies, so that SQL cannot change the store even through a fault in DuckDB, and
    can open no other files. Only for ``trusted`` SQL it is prepared for many questions, or for the
    one ``asked``, which may spill to the disk. Raises StoreError if no night is closed, and for
    tables that cannot be read; ProfileError for a project without cells.
    """
    every = closed_nights(store)
    if not every:
        collect = f"binary-checks nightly collect --store {shlex.quote(store.url)}"
        raise StoreError(f"{store.url}: no night is closed yet: `{collect}`")
    chosen = every if nights is None else nights
    known = [night for night in every if night <= chosen[-1]]
    names = {
        table: [table_name(night, table) for night in (known if table in _OF_PACKAGES else chosen)]
        for table in tables
    }
    with (
        TemporaryDirectory() as work,
        connect(Path(work) if trusted else None) as connection,
    ):
        paths = _copy(store, [name for each in names.values() for name in each], Path(work))
        connection.execute(f"SET allowed_paths = [{', '.join(map(quote_text, paths))}]")
        with explained(connection):
            for table in TABLES:
                _make_view(connection, table, [Path(work, name) for name in names.get(table, ())])
            make_views(connection, project)
            if project and connection.execute("FROM cells LIMIT 1").fetchone() is None:
                found = f"no cells of this project in {store.url}"
                raise ProfileError(f"--project {project!r:.80}: {found}")
            if trusted:
                _prepare(connection, asked)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection


def _copy(store: Store, names: Sequence[str], folder: Path) -> list[Path]:
    """Return read-only copies of stored tables; many take about as long as one from a bucket."""

    def copy(name: str) -> Path:
        copied = folder / name
        copied.parent.mkdir(exist_ok=True)
        with store.local(name) as path:
            shutil.copyfile(path, copied)
        copied.chmod(0o400)
        return copied

    return [*ask_at_once(copy, names)]


@contextmanager
def explained(connection: Connection, *, by_sql: bool = False) -> Iterator[None]:
    """Raise an error of one line for an error of DuckDB.

    It is StoreError for a table that cannot be read, and names the table, which DuckDB's errors do
    not always do. Of SQL that a user wrote (``by_sql``), mistakes are ProfileError.
    """
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        found = _STORED.search(reason)
        if by_sql and (reason.startswith("Permission") or (_MISTAKE.match(reason) and not found)):
            raise ProfileError(f"SQL: {reason}") from None
        (paths,) = connection.execute("SELECT current_setting('allowed_paths')").fetchone()
        for path in () if found else sorted(paths):
            try:
                rows = f"FROM {_read([path])}"
                connection.execute(f"SELECT max(hash(COLUMNS(*))) {rows}").fetchall()
            except duckdb.Error:
                found = _STORED.search(path)
                break
        name, shown = found[1] if found else "a table", _STORED.sub(r"\1", reason)
        raise StoreError(f"{name}: cannot be read: {shown}") from None


def _make_view(connection: Connection, table: str, paths: Sequence[Path]) -> None:
    """Make the view all_TABLE of these files, with the columns that this version knows."""
    columns = {quote_name(name): kind for name, kind in TABLES[table].items()}
    if paths:
        cast = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
        connection.execute(f"CREATE VIEW all_{table} AS SELECT {cast} FROM {_read(paths)}")  # noqa: S608 - names and paths of ours
    else:
        described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE all_{table} ({described})")


def _read(paths: Iterable[object]) -> str:
    files = ", ".join(map(quote_text, paths))
    return f"read_parquet([{files}], union_by_name = false, hive_partitioning = false)"


def make_views(connection: Connection, project: str = "") -> None:
    """Make the views that questions use."""
    connection.execute("CREATE TABLE letters (state VARCHAR, letter VARCHAR, rank INT, worst INT)")
    rows = [
        (state.value, letter, rank, _WORST_FIRST.index(state))
        for rank, (state, letter) in enumerate(LETTERS.items())
    ]
    connection.executemany("INSERT INTO letters VALUES (?, ?, ?, ?)", rows)
    connection.execute(f"SET VARIABLE project = {quote_text(project)}")
    connection.execute(_SQL.read_text(encoding="utf-8"))


def _prepare(connection: Connection, asked: str) -> None:
    """Compute some views once, and let questions spill to the disk early.

    Their memory then grows with the cells, but not with the nights.
    """
    (cells,) = connection.execute("SELECT count(DISTINCT cell) FROM all_cells").fetchone()
    connection.execute("SET threads = 1")  # each has buffers of its own
    connection.execute(f"SET memory_limit = '{64 + max(cells - 2_000, 0) // 100}MB'")
    connection.execute("SET streaming_buffer_size = '1MB'")
    for view in ("past", "failures", "mended") if _USING.search(asked or "past") else ():
        connection.execute(f"CREATE TEMP TABLE {view} AS FROM {view}")
