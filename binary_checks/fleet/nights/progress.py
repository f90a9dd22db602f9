"""What a night shows while it runs: a line that changes on a terminal, a line a cell elsewhere."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TextIO

from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.final_states import CellEnd
from binary_checks.fleet.nights.retrying import NextAttempt
from binary_checks.fleet.plan import PlannedCell
from binary_checks.fleet.states import GOOD, LETTERS, CellState
from binary_checks.lines import cut, one_line
from binary_checks.reports.verdict_texts import count

_CLEAR = "\r\x1b[K"


class NightProgress(Protocol):
    """Is told what happens, in the order in which it does."""

    def begin(self, cells: int, begun: int) -> None:
        """So many cells are to come to their end, and so many have results already."""

    def show(self, running: Sequence[str]) -> None:
        """These attempts run, as far as it is known here."""

    def finish(self, attempt: Attempt, following: NextAttempt | None, most: int) -> None:
        """An attempt ended, and another one may follow."""

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """A cell has come to its end."""

    def say(self, text: str) -> None:
        """Something that concerns the whole night."""


class NightScreen:
    """Shows it on a terminal, or as lines in a file or a pipe."""

    def __init__(self, out: TextIO, *, terminal: bool) -> None:
        self._out, self._terminal = out, terminal
        self._cells, self._counts = 0, Counter[CellState]()
        self._running: Sequence[str] = ()
        self._start = time.monotonic()

    def begin(self, cells: int, begun: int) -> None:
        """Show how much there is to do."""
        self._cells = cells
        resumed = f", {begun} of them begun before" if begun else ""
        self.say(f"{count(cells, 'cell')}{resumed}")

    def show(self, running: Sequence[str]) -> None:
        """Show what runs, and the time."""
        self._running = running
        self._redraw()

    def finish(self, attempt: Attempt, following: NextAttempt | None, most: int) -> None:
        """Show an attempt that was in vain and is made again."""
        if following is not None and attempt.state not in GOOD:
            again = f"again in {following.pause:,.0f} s ({following.number} of at most {most})"
            self.say(f"{attempt.cell}: {attempt.state.value}: {_why(attempt)}: {again}")
        self._redraw()

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """Show a cell that has come to its end; on a terminal only where it is not well."""
        self._counts[end.state] += 1
        if not self._terminal or end.state not in GOOD:
            why = end.evidence or end.reason
            seconds = sum(each.seconds for each in end.attempts)
            text = f"{LETTERS[end.state]} {planned.cell.id}: {end.state.value}"
            self.say(f"{text}{f': {why}' if why else ''} ({seconds:,.1f} s)")
        self._redraw()

    def say(self, text: str) -> None:
        """Print one line, whatever is in it."""
        clear = _CLEAR if self._terminal else ""
        self._print(f"{clear}{cut(one_line(text))}\n")
        self._redraw()

    def close(self) -> None:
        """Leave no line behind that is not whole."""
        if self._terminal:
            self._print(_CLEAR)

    def _redraw(self) -> None:
        if not self._terminal:
            return
        done = sum(self._counts.values())
        bad = ", ".join(f"{n} {s.value}" for s, n in self._counts.items() if s not in GOOD)
        names = " ".join(self._running)
        parts = (f"{done}/{self._cells}", f"{time.monotonic() - self._start:,.0f} s", bad, names)
        width = shutil.get_terminal_size().columns - 1
        self._print(f"{_CLEAR}{one_line(' · '.join(filter(None, parts)))[:width]}")

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _why(attempt: Attempt) -> str:
    return attempt.evidence or attempt.reason or "problems"
