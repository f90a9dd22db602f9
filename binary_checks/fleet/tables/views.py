"""Write Parquet tables, and open the tables of all nights as read-only views."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from binary_checks.errors import GatherError, StoreError
from binary_checks.fleet.night import LETTERS
from binary_checks.fleet.store import Store, ask_at_once, table_name
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.rows import TABLES, Row
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
            with suppress(duckdb.CatalogException):  # before DuckDB 2.0, an operator may take all
                connection.execute("SET operator_memory_limit = '24MB'")
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

_SQL = Path(__file__).with_name("views.sql")
_OF_PACKAGES = ("objects", "parts")
"""Tables with one set of rows for each package, from the first night with that package."""
_KEPT = ("past", "failures")
"""Views that are computed once for a connection that answers many questions."""
_WORST_FIRST = (
    *(CellState.FAILED, CellState.LOST, CellState.INFRA, CellState.NOT_JUDGED, CellState.MISSING),
    *(CellState.STALE, CellState.FLAKY, CellState.BLOCKED, CellState.KNOWN, CellState.PASSED),
)
_STORED = re.compile(r"[^\s'\"]*?(night=\d{4}-\d{2}-\d{2}/\w+\.parquet)")


@contextmanager
def open_tables(  # noqa: PLR0913 - what is read, and by whom
    store: Store,
    *,
    tables: Collection[str] = TABLES,
    nights: Sequence[str] | None = None,
    project: str = "",
    apart: bool = False,
    often: bool = False,
) -> Iterator[Connection]:
    """Yield a connection with the tables of all closed nights, and the views of `views.sql`.

    ``tables`` limits the fetched files; other tables are empty. ``nights`` limits cells and checks
    to these closed nights, and ignores later ones; ``project`` limits all views to its cells. The
    connection can open no other files. With ``apart`` it opens copies, so that untrusted SQL
    cannot change the store even through a fault in DuckDB; otherwise it may spill to the disk. With
    ``often`` it is prepared for many questions. Raises StoreError if no night is closed, and for
    tables that cannot be read.
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
    _fetch(store, [name for each in names.values() for name in each])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        connection = stack.enter_context(connect(None if apart else folder))
        opened: list[Path] = []
        for table in TABLES:
            paths = [
                _copy(path, name, folder) if apart or _is_pattern(path) else path
                for name in names.get(table, ())
                for path in (stack.enter_context(store.local(name)),)
            ]
            _make_view(connection, table, paths)
            opened += paths
        stack.enter_context(_explained(connection, opened))
        make_views(connection, project, often=often)
        _lock(connection, opened)
        yield connection


@contextmanager
def _explained(connection: Connection, paths: Sequence[Path]) -> Iterator[None]:
    """Raise StoreError for rows that cannot be read, although the table's header can."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise explain_unreadable(connection, paths, error) from None


def explain_unreadable(
    connection: Connection, paths: Iterable[str | Path], error: Exception
) -> StoreError:
    """Return an error of one line that names the first unreadable table.

    DuckDB's errors do not always name it.
    """
    import duckdb

    reason = str(error).partition("\n")[0]
    found = _STORED.search(reason)
    for path in () if found else sorted(map(str, paths)):
        try:
            rows = f"FROM {_read([Path(path)])}"
            connection.execute(f"SELECT max(hash(COLUMNS(*))) {rows}").fetchall()
        except duckdb.Error:
            found = _STORED.search(path)
            break
    name = found[1] if found else "a table"
    shown = _STORED.sub(r"\1", reason)
    return StoreError(f"{name}: cannot be read: {shown}")


def names_table(reason: str) -> bool:
    """Return whether an error of DuckDB names a stored table."""
    return _STORED.search(reason) is not None


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


def known_packages(
    connection: Connection, store: Store, before: str, wanted: Iterable[str]
) -> frozenset[str]:
    """Return those of the SHA-256 of packages whose objects an earlier night has."""
    nights = [night for night in closed_nights(store) if night < before]
    with ExitStack() as stack:
        paths = [stack.enter_context(store.local(table_name(night, "parts"))) for night in nights]
        _make_view(connection, "parts", paths)
        stack.enter_context(_explained(connection, paths))
        known = "SELECT DISTINCT sha256 FROM all_parts WHERE list_contains($wanted, sha256)"
        found = connection.execute(known, {"wanted": [*wanted]}).fetchall()
        return frozenset(sha256 for (sha256,) in found)


def _make_view(connection: Connection, table: str, paths: Sequence[Path]) -> None:
    """Make the view all_TABLE of these files, with the columns that this version knows."""
    columns = {quote_name(name): kind for name, kind in TABLES[table].items()}
    if not paths:
        described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE all_{table} ({described})")
        return
    cast = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    with _explained(connection, paths):
        connection.execute(f"CREATE VIEW all_{table} AS SELECT {cast} FROM {_read(paths)}")  # noqa: S608 - names and paths of ours


def _read(paths: Iterable[Path]) -> str:
    files = ", ".join(map(quote_path, paths))
    return f"read_parquet([{files}], union_by_name = false, hive_partitioning = false)"


def make_views(connection: Connection, project: str = "", *, often: bool = False) -> None:
    """Make the views that questions use."""
    connection.execute("CREATE TABLE letters (state VARCHAR, letter VARCHAR, rank INT, worst INT)")
    rows = [
        (state.value, letter, rank, _WORST_FIRST.index(state))
        for rank, (state, letter) in enumerate(LETTERS.items())
    ]
    connection.executemany("INSERT INTO letters VALUES (?, ?, ?, ?)", rows)
    connection.execute(f"SET VARIABLE project = {quote_text(project)}")
    connection.execute(_SQL.read_text(encoding="utf-8"))
    if often:
        _bound_memory(connection)
        for view in _KEPT:
            connection.execute(f"CREATE TEMP TABLE {view} AS FROM {view}")


def _bound_memory(connection: Connection) -> None:
    """Let questions spill to the disk early: their memory grows with the cells, not the nights."""
    import duckdb

    (cells,) = connection.execute("SELECT count(DISTINCT cell) FROM all_cells").fetchone()
    connection.execute("SET threads = 1")  # each has buffers of its own
    connection.execute(f"SET memory_limit = '{64 + max(cells - 2_000, 0) // 100}MB'")
    with suppress(duckdb.CatalogException):
        connection.execute("SET streaming_buffer_size = '1MB'")


def _lock(connection: Connection, paths: Sequence[Path]) -> None:
    """Forbid the connection to open other files, irrevocably."""
    allowed = ", ".join(map(quote_text, paths))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
