"""The tables of an array in a file, each with the words that say where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.profile.toml_values import reject_unknown

_MOST_ROWS = 1_000  # of one kind, each of which is held against every cell


def read_rows(
    tables: Mapping[str, Any], content: bytes, name: str, table: str, known: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Those of ``[[table]]`` in the file of that name and content. Raises ProfileError.

    ``tables`` is what holds the array: the whole file, or the table before the last dot.
    """
    rows = tables.get(table.rpartition(".")[2], [])
    if not isinstance(rows, list):
        raise ProfileError(f"{name}: {table}: write [[{table}]], with two brackets")
    if len(rows) > _MOST_ROWS:
        raise ProfileError(f"{name}: {table}: more than {_MOST_ROWS:,} tables")
    lines = _find_lines(content, table, len(rows))
    for index, row in enumerate(rows):
        where = f"{name}: {table}[{index}]{lines[index]}"
        if not isinstance(row, dict):
            raise ProfileError(f"{where}: not a table")
        reject_unknown(row, known, where, "key")
        yield row, where


def _find_lines(content: bytes, table: str, count: int) -> list[str]:
    """In which lines the tables begin, where each has a line of its own that says so."""
    header = re.compile(rf"[ \t]*\[\[[ \t]*{re.escape(table)}[ \t]*\]\]")
    text = content.decode("utf-8").splitlines()
    found = [number for number, line in enumerate(text, 1) if header.match(line)]
    return [f" (line {number})" for number in found] if len(found) == count else [""] * count
