"""The tables of all nights as four views, over which SQL reads and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from binary_checks.errors import StoreError
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import NIGHT, closed_name, table_name
from binary_checks.fleet.tables.columns import TABLES
from binary_checks.fleet.tables.parquet_files import (
    Connection,
    connect,
    quote_name,
    quote_path,
    quote_text,
)

_OF_PACKAGES = ("objects", "parts")
"""What is written once for each package, by the first night that met it."""


def closed_nights(store: Store) -> tuple[str, ...]:
    """The nights that are over, oldest first: only their tables never change."""
    folders = (NIGHT.fullmatch(each) for each in store.folders("night="))
    nights = sorted(found[1] for found in folders if found)
    return tuple(night for night in nights if store.read(closed_name(night)) is not None)


@contextmanager
def open_tables(
    store: Store, *, nights: int | None = None, project: str = ""
) -> Iterator[Connection]:
    """A connection whose views cells, checks, objects and parts have all closed nights.

    With ``nights`` cells and checks have the last ones alone; with ``project`` all views have
    what is of its cells alone. It reads no other file, and changes none. Raises StoreError for a
    store without a closed night, and for tables that cannot be read.
    """
    every = closed_nights(store)
    if not every:
        raise StoreError(f"{store.url}: no night is closed yet: `binary-checks nightly collect`")
    last = every[-nights:] if nights else every
    with ExitStack() as stack, connect() as connection:
        files = {
            table: {
                stack.enter_context(store.local(name)): name
                for night in (every if table in _OF_PACKAGES else last)
                for name in (table_name(night, table),)
            }
            for table in TABLES
        }
        for table, paths in files.items():
            _make_view(connection, store, table, paths)
        _narrow(connection, project)
        _lock(connection, [path for paths in files.values() for path in paths])
        yield connection


def known_packages(connection: Connection, store: Store, before: str) -> frozenset[str]:
    """The SHA-256 of each package whose objects an earlier night has."""
    nights = [night for night in closed_nights(store) if night < before]
    if not nights:
        return frozenset()
    with ExitStack() as stack:
        names = [table_name(night, "parts") for night in nights]
        paths = {stack.enter_context(store.local(name)): name for name in names}
        _make_view(connection, store, "parts", paths)
        found = connection.execute("SELECT DISTINCT sha256 FROM all_parts").fetchall()
        return frozenset(sha256 for (sha256,) in found)


def _make_view(connection: Connection, store: Store, table: str, paths: Mapping[Path, str]) -> None:
    """Make the view all_TABLE of these files, whose columns are those that are known."""
    import duckdb

    columns = ", ".join(
        f"CAST({quote_name(name)} AS {kind}) AS {quote_name(name)}"
        for name, kind in TABLES[table].items()
    )
    files = ", ".join(map(quote_path, paths))
    source = f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"
    try:
        connection.execute(f"CREATE VIEW all_{table} AS SELECT {columns} FROM {source}")  # noqa: S608
    except duckdb.Error as error:
        raise StoreError(f"{store.url}: {_name_damage(error, paths)}") from None


def _name_damage(error: Exception, paths: Mapping[Path, str]) -> str:
    """Which table is damaged, and how, in one line."""
    reason = str(error).partition("\n")[0]
    for path, name in paths.items():
        if str(path) in reason:
            return f"{name}: not a table that can be read: {reason.replace(str(path), name)}"
    return f"a table cannot be read: {reason}"


def _narrow(connection: Connection, project: str) -> None:
    """Make the views that SQL sees: of one project, and each package's objects once."""
    chosen = f" WHERE project = {quote_text(project)}" if project else ""
    connection.execute(f"CREATE VIEW cells AS FROM all_cells{chosen}")
    of_cells = " WHERE cell IN (SELECT cell FROM cells)" if project else ""
    connection.execute(f"CREATE VIEW checks AS FROM all_checks{of_cells}")
    of_packages = " WHERE sha256 IN (SELECT sha256 FROM cells)" if project else ""
    for table in _OF_PACKAGES:
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
