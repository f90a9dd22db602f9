"""``binary-checks known expire``: a list without what has expired or matches nothing any more."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from binary_checks.command import SubcommandParser, complain
from binary_checks.errors import ProfileError, StoreError
from binary_checks.files import read_named, written_beside
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
    find_removable,
    key_of,
    read_before,
    remove_entries,
)
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.views import open_tables
from binary_checks.model.outcomes import CellState
from binary_checks.profile.known import LARGEST_LIST, LIST, KnownList, KnownProblem, read_known_list

_PURPOSE = "Print a list without the entries that have expired, or matched nothing for five nights."
_QUESTION = "select strftime(night, '%Y-%m-%d'), cell, state, coalesce(accepted, 0) from cells"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """How a cell ended in one night."""

    cell: str
    state: CellState
    accepted: int


def run(arguments: Sequence[str]) -> int:
    """Print the list, or write it; returns the exit status."""
    options = _read_options(arguments)
    path = Path(options.list)
    where = f"{LIST}{options.list}"
    content = read_named(path, LARGEST_LIST, where)
    listed = read_known_list(content, where)
    gone = dict(_find_expired(listed, datetime.now(timezone.utc).date()))
    if options.store:
        gone = {**dict(_find_unmatched(listed, options.store)), **gone}
    edited = remove_entries(content, gone, where)
    for number in sorted(gone):
        complain(f"known expire: {_name(listed.entries[number], number)}: {gone[number]}")
    if not options.write:
        sys.stdout.flush()
        sys.stdout.buffer.write(edited)
        sys.stdout.buffer.flush()
    elif gone:
        _replace(path, edited)
    said = f"{len(gone):,} of {len(listed.entries):,} entries removed"
    todo = "; set issued and valid_until before you publish it" if gone and listed.issued else ""
    complain(f"known expire: {said}{todo}")
    return 0


def _read_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known expire", description=_PURPOSE)
    add = parser.add_argument
    add("list", metavar="LIST", help="a file of [[known_problems]]")
    parser.add_store(": its nights say which entries still match", required=False)
    add("--write", action="store_true", help="replace the file instead of printing it")
    return parser.parse_args(arguments)


def _name(entry: KnownProblem, number: int) -> str:
    return f"known_problems[{number}], {entry.check}: {entry.reason}"


def _find_expired(listed: KnownList, today: date) -> Iterator[tuple[int, str]]:
    for number, entry in enumerate(listed.entries):
        if entry.has_expired(today):
            yield number, f"expired on {entry.expires}"


def _find_unmatched(listed: KnownList, url: str) -> Iterator[tuple[int, str]]:
    store = open_store(url)
    nights = closed_nights(store)[-LOOKED_AT:]
    if len(nights) < LONG:
        said = "closed nights are too few to say which entries match nothing"
        complain(f"known expire: {store.url}: {len(nights)} {said}")
        return
    with open_tables(store, tables=("cells",), nights=nights) as connection:
        rows = _group(connection.execute(_QUESTION).fetchall())
    removable = {*map(key_of, find_removable(listed.entries, read_before(store, rows)))}
    for number, entry in enumerate(listed.entries):
        if key_of(entry) in removable:
            yield number, f"matched nothing for {LONG} nights"


def _group(found: Iterable[tuple[Any, ...]]) -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for night, cell, state, accepted in found:
        try:
            row = _Row(cell=str(cell), state=CellState(state), accepted=int(accepted))
        except ValueError:
            raise StoreError(f"night {night}: {cell}: state {state!r:.40} is unknown") from None
        rows.setdefault(str(night), []).append(row)
    return rows


def _replace(path: Path, content: bytes) -> None:
    """Replace a file by one that is whole, with the same mode, also behind a link."""
    path = path.resolve()
    if not path.is_file():
        raise ProfileError(f"known expire: {path.name}: not a regular file: it cannot be replaced")
    with written_beside(path) as file:
        file.write(content)
