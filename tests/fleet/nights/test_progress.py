"""A night's display: a line for each cell, wherever it is printed."""

from __future__ import annotations

import io

from binary_checks.fleet.night import Attempt, Cell, CellEnd, PlannedCell
from binary_checks.fleet.nights import CoordinatorLog, NextAttempt
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import NIGHT

HOSTILE = "needs \x1b]0;owned\x07lib.so\n::error::and obeys"


def test_each_cell_is_a_line_without_control_characters() -> None:
    out = io.StringIO()
    log = CoordinatorLog(out)
    good, bad = (PlannedCell(cell=Cell(id=name, project=name)) for name in ("numpy", "scipy"))
    log.begin(2, 0)
    lost = Attempt(
        night=NIGHT, cell="scipy", number=1, state=CellState.LOST, reason="ended by signal 9",
        started="", seconds=2.0,
    )  # fmt: skip
    log.finish(lost, NextAttempt(number=2, pause=30.0))
    log.end(good, CellEnd(state=CellState.PASSED))
    log.end(bad, CellEnd(state=CellState.FAILED, evidence=HOSTILE))
    assert out.getvalue().splitlines() == [
        "2 cells",
        "scipy.cpu1 on an unknown host: lost: ended by signal 9; attempt 2 of at most 3 in 30 s",
        "· numpy: passed (0.0 s; 1 of 2)",
        r"X scipy: failed: needs \x1b]0;owned\x07lib.so\n\x3a:error::and obeys (0.0 s; 2 of 2)",
    ]
