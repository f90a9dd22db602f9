"""How a cell's night ended: ten words, and a letter for each, as colours alone tell too few."""

from __future__ import annotations

from enum import Enum


class CellState(str, Enum):
    """Of one attempt, and of the cell, whose last attempt decides but where it is flaky."""

    PASSED = "passed"
    KNOWN = "known"  # problems, and all of them accepted
    FAILED = "failed"
    FLAKY = "flaky"  # failed, then passed on the same bytes; counts as neither
    NOT_JUDGED = "not judged"  # too little is known of it, and another attempt knows no more
    INFRA = "infra"  # the network, the disk or the host broke: tried again
    LOST = "lost"  # no result: out of memory, killed, disk full
    BLOCKED = "blocked"  # a GPU stage without a passing CPU stage of the same bytes
    STALE = "stale"  # what is published is older than the source allows
    MISSING = "missing"  # nothing is published


GOOD = frozenset({CellState.PASSED, CellState.KNOWN})
"""After which a package may be published, and its second stage begin."""
DECIDED = GOOD | {CellState.FAILED}
"""States that say something of the package; the others do so of the night, or of nothing."""
WELL = GOOD | {CellState.FLAKY, CellState.BLOCKED}
"""States that leave a night green; a GPU stage that waits has a CPU stage that tells."""
LETTERS = {
    CellState.PASSED: "·",
    CellState.KNOWN: "k",
    CellState.FAILED: "X",
    CellState.FLAKY: "~",
    CellState.NOT_JUDGED: "?",
    CellState.INFRA: "I",
    CellState.LOST: "L",
    CellState.BLOCKED: "B",
    CellState.STALE: "S",
    CellState.MISSING: "\N{EN DASH}",
}
