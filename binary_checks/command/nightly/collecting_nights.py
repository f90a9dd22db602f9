"""``binary-checks nightly collect``: takes a night's results together, makes tables, closes it."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.errors import RecordError
from binary_checks.fleet.nights.closing import close_night, list_waiting, read_closed
from binary_checks.fleet.nights.merging import Merged, find_nights, merge_night
from binary_checks.fleet.nights.night_dates import choose_night, list_nights, read_date
from binary_checks.fleet.records import read_plan
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.store_names import plan_name
from binary_checks.fleet.tables.collecting import keep_tables, make_tables

_PURPOSE = "Take the results of a night together, make its tables, and close it."
_STAYS_OPEN = 1
"""Exit status where results are still to come."""


def run(arguments: Sequence[str]) -> int:
    """Collect a night; returns the exit status."""
    options = _options().parse_args(arguments)
    store = open_store(options.store, make=bool(options.folders))
    night = _choose(store, options)
    if closed := read_closed(store, night):
        print(f"{night}: closed already, {closed.closed}; nothing in it changes any more")
        return 0
    merged = merge_night(store, night, options.folders)
    if merged.attempts or merged.known:
        known = f", {merged.known} known already" if merged.known else ""
        print(f"{night}: {merged.attempts} results taken over{known}")
    _tell(merged.complaints)
    return _collect(store, night, merged, close=options.close)


def _choose(store: Store, options: argparse.Namespace) -> str:
    """The night that is meant: of a store that is filled from folders it may be new."""
    if options.folders and options.date:
        return read_date(options.date)
    if options.folders and not list_nights(store):
        return max(find_nights(options.folders), default="") or choose_night(store)
    return choose_night(store, options.date or "")


def _collect(store: Store, night: str, merged: Merged, *, close: bool) -> int:
    content = store.read(plan_name(night))
    if content is None:
        raise RecordError(f"{store.url}: {night}: no plan: nothing of that night can be counted")
    plan = read_plan(content, f"{store.url}: {plan_name(night)}")
    with tempfile.TemporaryDirectory(prefix="binary-checks-") as folder:
        made = make_tables(store, night, Path(folder))
        _tell(made.complaints)
        waiting = list_waiting(plan, made.attempts)
        if waiting and not close:
            return _leave_open(night, waiting, len(plan.cells))
        keep_tables(store, made)
    states = {state.value: made.states[state] for state in CellState if made.states.get(state)}
    closed = close_night(store, night, states, (*merged.complaints, *made.complaints))
    counts = [
        f"{closed.states[state]} {state.value}" for state in CellState if state in closed.states
    ]
    print(f"{night}: closed; {', '.join(counts) or 'no cell'}")
    return 0


def _leave_open(night: str, waiting: Sequence[str], planned: int) -> int:
    named = ", ".join(waiting[:3]) + (", …" if len(waiting) > 3 else "")
    complain(
        f"nightly collect: {night}: {len(waiting)} of {planned} cells have no result yet "
        f"({named}): the night stays open; --close closes it without them"
    )
    return _STAYS_OPEN


def _tell(complaints: Iterable[str]) -> None:
    for each in complaints:
        complain(f"nightly collect: {each}")


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks nightly collect", description=_PURPOSE)
    add = parser.add_argument
    add("--store", metavar="URL", required=True, help="a folder, or s3://bucket/prefix")
    add("--date", metavar="D", help="the night, as 2026-11-20; the newest where none is given")
    add(
        "--from",
        dest="folders",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="a store in a folder, or a folder of such, as jobs of a CI system leave them "
        "(repeatable)",
    )
    add("--close", action="store_true", help="count cells without a result as lost")
    return parser
