"""``binary-checks nightly collect``: takes a night's results together, makes tables, closes it."""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.cells.cells_file import DEFAULT_FILE, parse_cells
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.nights.merging import (
    ChangedCell,
    ClosedNight,
    Merged,
    close_night,
    list_waiting,
    merge_night,
    read_closed,
)
from binary_checks.fleet.nights.planning import compare_serials
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import choose_night, demand_plan, now, read_date
from binary_checks.fleet.tables.collecting import keep_tables, make_tables
from binary_checks.lines import one_line
from binary_checks.model.outcomes import CellState

_PURPOSE = "Collect the results of a night, make its tables, and close it."
_STAYS_OPEN = 1
"""Exit status where results are still to come."""


def run(arguments: Sequence[str]) -> int:
    """Collect a night; returns the exit status."""
    options = _options().parse_args(arguments)
    store = open_store(options.store)
    night = _choose(store, options)
    if closed := read_closed(store, night):
        print(one_line(f"{night}: closed already, {closed.closed}; nothing in it changes any more"))
        return 0
    merged = merge_night(store, night, options.folders) if options.folders else Merged()
    if merged.attempts or merged.known:
        known = f", {merged.known} known already" if merged.known else ""
        print(f"{night}: {merged.attempts} results taken over{known}")
    _tell(merged.complaints)
    return _collect(store, night, merged, options)


def _choose(store: Store, options: argparse.Namespace) -> str:
    """Return the night that is meant."""
    if options.folders and options.date:
        return read_date(options.date)  # `merge_night` explains why a folder's plan is not taken
    return choose_night(store, options.date)


def _collect(store: Store, night: str, merged: Merged, options: argparse.Namespace) -> int:
    plan = demand_plan(store, night)
    with tempfile.TemporaryDirectory(prefix="binary-checks-") as folder:
        made = make_tables(store, night, Path(folder))
        _tell(made.complaints)
        waiting = list_waiting(plan, made.attempts)
        if waiting and not options.close:
            return _leave_open(night, waiting, len(plan.cells))
        keep_tables(store, made)
    states = {state.value: made.states[state] for state in CellState if made.states.get(state)}
    changed, unasked = ((), "") if options.offline else _ask_again(plan, options.cells)
    _tell([unasked] if unasked else [])
    closed = close_night(
        store,
        ClosedNight(
            night=night,
            closed=now(),
            states=states,
            changed=changed,
            complaints=(*merged.complaints, *made.complaints, *([unasked] if unasked else ())),
        ),
    )
    for each in closed.changed:
        print(one_line(f"{night}: {each.cell}: the index changed meanwhile: {each.reason}"))
    counts = [
        f"{closed.states[state]} {state.value}" for state in CellState if state in closed.states
    ]
    print(f"{night}: closed; {', '.join(counts) or 'no cell'}")
    return 0


def _ask_again(plan: NightPlan, cells: Path) -> tuple[tuple[ChangedCell, ...], str]:
    """Which cells stand for other bytes by now, and why nobody could tell, where that is so."""
    content = cells.read_bytes() if cells.is_file() else b""
    if hashlib.sha256(content).hexdigest() != plan.cells_sha256:
        said = f"{cells}: not the file that the night was planned from"
        return (), f"{said}: whether an index changed meanwhile was not looked at"
    try:
        changes = compare_serials(plan, parse_cells(content, cells))
    except BinaryChecksError as error:
        return (), f"whether an index changed meanwhile was not looked at: {error}"
    return tuple(ChangedCell(cell=each.cell, reason=each.reason) for each in changes), ""


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
    add(
        "cells",
        nargs="?",
        type=Path,
        default=Path(DEFAULT_FILE),
        metavar="CELLS.toml",
        help="the matrix, to ask its indexes again (default: cells.toml)",
    )
    parser.add_store()
    parser.add_date()
    add(
        "--from",
        dest="folders",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="a store in a folder, or a folder of such, as jobs of a CI system leave them: its "
        "results of the night that --store has planned (repeatable)",
    )
    add("--offline", action="store_true", help="do not ask the indexes what they have by now")
    add("--close", action="store_true", help="count cells without a result as lost")
    return parser
