"""How a cell's night ended: ten words, and a letter for each, as colours alone tell too few."""

from __future__ import annotations

from binary_checks.model.outcomes import CellState

__all__ = ["DECIDED", "GOOD", "LETTERS", "WELL", "CellState"]

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
