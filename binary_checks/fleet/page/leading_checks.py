"""Which checks lead where several say the same fault of a cell, as reports of one run fold them."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.documents.result_reader import decode_results
from binary_checks.errors import ProfileError
from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.page.history import History
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import read_cell_attempts
from binary_checks.model import Level
from binary_checks.reports.faults import fold


def find_leading(store: Store, history: History) -> dict[str, frozenset[str]]:
    """By cell the checks that lead, of cells that failed several checks in the last night.

    A cell whose results cannot be read is left out: then all of its checks count.
    """
    found = {}
    for row in history.tonight():
        failed = history.failures.get((row.cell, row.night), ())
        if row.state is CellState.FAILED and len({each.check for each in failed}) > 1:
            attempts = read_cell_attempts(store, row.night, row.cell)
            if leading := frozenset(check for each in attempts for check in _lead(each)):
                found[row.cell] = leading
    return found


def _lead(attempt: Attempt) -> Iterator[str]:
    """The checks whose lines are shown of an attempt's problems."""
    if not isinstance(attempt.result, dict):
        return
    try:
        run = decode_results({"checks": [], **attempt.result}, attempt.cell)
    except ProfileError:
        return  # its page says why
    for package in run.packages:
        faults = fold(package.entries)
        yield from (each.shown.check for each in faults if each.level is Level.ERROR)
