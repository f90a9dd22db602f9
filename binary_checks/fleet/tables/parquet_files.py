"""Parquet files, written by DuckDB alone; only this room imports it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from binary_checks.errors import GatherError
from binary_checks.fleet.tables.columns import TABLES
from binary_checks.fleet.tables.night_rows import Row

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
