"""Which checks lead where several say the same fault of a cell, as reports of one run fold them."""

from __future__ import annotations

from itertools import chain

from binary_checks.fleet.causes.leading import find_leaders
from binary_checks.fleet.page.history import History
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import NightAttempts


def find_leading(store: Store, history: History) -> dict[str, frozenset[str]]:
    """By cell the checks that lead, of cells that failed several checks in the last night.

    A cell whose results cannot be read is left out: then all of its checks count.
    """
    found, attempts = {}, NightAttempts(store, history.last)
    for row in history.tonight():
        failed = history.failures.get((row.cell, row.night), ())
        if row.state is not CellState.FAILED or len({each.check for each in failed}) < 2:
            continue
        leaders = (find_leaders(each.result) for each in attempts.read(row.cell))
        if leading := frozenset(chain.from_iterable(leaders)):
            found[row.cell] = leading
    return found
