"""A night's display: one changing line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

from binary_checks.fleet.night import Attempt, Cell, CellEnd, PlannedCell
from binary_checks.fleet.nights import CoordinatorLog, NextAttempt
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import NIGHT

HOSTILE = "needs \x1b]0;owned\x07lib.so\n::error::and obeys"


def show(*, terminal: bool) -> str:
    out = io.StringIO()
    log = CoordinatorLog(out, terminal=terminal)
    good, bad = (PlannedCell(cell=Cell(id=name, project=name)) for name in ("numpy", "scipy"))
    log.begin(2, 0)
    log.show(["numpy.cpu1", "scipy.cpu1"])
    lost = Attempt(
        night=NIGHT, cell="scipy", number=1, state=CellState.LOST, reason="ended by signal 9",
        started="", seconds=2.0,
    )  # fmt: skip
    log.finish(lost, NextAttempt(number=2, pause=30.0))
    log.end(good, CellEnd(state=CellState.PASSED))
    log.end(bad, CellEnd(state=CellState.FAILED, evidence=HOSTILE))
    log.close()
    return out.getvalue()


def test_in_a_pipe_each_cell_is_a_line_without_control_characters() -> None:
    assert show(terminal=False).splitlines() == [
        "2 cells",
        "scipy.cpu1 on an unknown host: lost: ended by signal 9; attempt 2 of at most 3 in 30 s",
        "· numpy: passed (0.0 s)",
        r"X scipy: failed: needs \x1b]0;owned\x07lib.so\n\x3a:error::and obeys (0.0 s)",
    ]


def test_on_a_terminal_a_line_changes_and_only_what_is_not_well_stays() -> None:
    shown = show(terminal=True)
    lines = [line.rpartition("\r\x1b[K")[2] for line in shown.split("\n")]
    assert [line.partition(":")[0] for line in lines] == [
        "2 cells",
        "scipy.cpu1 on an unknown host",
        "X scipy",
        "",
    ]
    assert "0/2 · 0 s · numpy.cpu1 scipy.cpu1" in shown
    assert "2/2 · 0 s · 1 failed" in shown
    assert "\x1b]" not in shown
