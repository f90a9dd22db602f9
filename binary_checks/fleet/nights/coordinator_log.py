"""What a coordinator prints about its night, and the log of it, which is kept with the night.

On a terminal, one line shows the progress, and a cell that ended well only counts in it; the log
has a line for each attempt and each cell. Elsewhere, each cell is a printed line.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from binary_checks import __version__
from binary_checks.errors import RecordError
from binary_checks.fleet.night import GOOD, LETTERS, Attempt, CellEnd, PlannedCell
from binary_checks.fleet.nights.attempting import MOST, NextAttempt
from binary_checks.fleet.store import (
    Store,
    closed_name,
    coordinator_log_name,
    coordinator_log_prefix,
)
from binary_checks.fleet.stored_nights import now
from binary_checks.model import CellState
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

LARGEST_LOG = 16 << 20  # bytes
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_CLEAR = "\r\x1b[K"


class CoordinatorLog:
    """Prints and records what happens in a night, in order."""

    def __init__(self, out: TextIO, *, terminal: bool) -> None:
        self._out, self._terminal = out, terminal
        self._cells, self._counts = 0, Counter[CellState]()
        self._start, self._began, self._host = time.monotonic(), now(), socket.gethostname()
        self._lines: list[str] = []
        self.note(f"binary-checks {__version__} on {self._host}, process {os.getpid()}")

    def begin(self, cells: int, begun: int) -> None:
        """Print the number of cells, and how many of them have results already."""
        self._cells = cells
        resumed = f", {begun} of them started before" if begun else ""
        self.print_line(f"{count(cells, 'cell')}{resumed}")

    def show(self, running: Sequence[str]) -> None:
        """Show the progress, and the names of running attempts, on a terminal."""
        if not self._terminal or not self._cells:
            return
        done = sum(self._counts.values())
        bad = ", ".join(f"{n} {s.value}" for s, n in self._counts.items() if s not in GOOD)
        seconds = f"{time.monotonic() - self._start:,.0f} s"
        parts = (f"{done}/{self._cells}", seconds, bad, " ".join(running))
        width = shutil.get_terminal_size().columns - 1
        self._print(f"{_CLEAR}{one_line(' · '.join(filter(None, parts)))[:width]}")

    def finish(self, attempt: Attempt, following: NextAttempt | None) -> None:
        """Record how an attempt ended; print it if it failed and is repeated."""
        name = f"{attempt.cell}.{attempt.stage}{attempt.number}"
        text = f"{name} on {attempt.host or 'an unknown host'}: {attempt.state.value}"
        if why := attempt.evidence or attempt.reason:
            text += f": {why}"
        if following:
            text += f"; attempt {following.number} of at most {MOST} in {following.pause:,.0f} s"
        if following and attempt.state not in GOOD:
            self.print_line(text)
        else:
            self.note(text)

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """Record how a cell ended, why, and how long all its attempts took."""
        self._counts[end.state] += 1
        text = f"{LETTERS[end.state]} {planned.cell.id}: {end.state.value}"
        if why := end.evidence or end.reason:
            text += f": {why}"
        text += f" ({sum(each.seconds for each in end.attempts):,.1f} s)"
        if self._terminal and end.state in GOOD:
            self.note(text)
            self.show(())
        else:
            self.print_line(text)

    def print_line(self, text: str) -> None:
        """Print and record a message."""
        self.note(text)
        self._print(f"{_CLEAR if self._terminal else ''}{cut(one_line(text))}\n")
        self.show(())

    def note(self, text: str) -> None:
        """Record a message alone."""
        self._lines.append(f"{now()} {cut(one_line(text))}\n")

    def close(self) -> None:
        """Clear the line with the progress; what follows is printed as elsewhere."""
        if self._terminal:
            self._print(_CLEAR)
        self._terminal = False

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def keep(self, store: Store, night: str) -> bool:
        """Store the log; return False if the night was closed meanwhile and cannot change.

        Raises StoreError.
        """
        if store.read(closed_name(night)) is not None:
            return False
        host = _UNSAFE.sub("-", self._host).strip("-")[:60] or "host"
        began = re.sub(r"[-:]|\+.*", "", self._began)
        name = coordinator_log_name(night, f"{began}Z.{host}.{secrets.token_hex(4)}")
        return store.create(name, "".join(self._lines).encode())


def read_coordinator_logs(
    store: Store, night: str, broken: list[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield name and lines of each log of a night's coordinators, the oldest first.

    A log that cannot be read adds a line to ``broken``.
    """
    for stored in store.names(coordinator_log_prefix(night)):
        try:
            content = store.read(stored.name, LARGEST_LOG)
        except RecordError as error:
            broken.append(str(error))
            continue
        if content is not None:
            yield stored.name, content.decode("utf-8", "replace").splitlines()


def merge_coordinator_logs(store: Store, other: Store, night: str, broken: list[str]) -> None:
    """Copy the coordinators' logs that another store has of a night."""
    for name, lines in read_coordinator_logs(other, night, broken):
        if name.endswith(".log"):
            store.create(name, "".join(f"{line}\n" for line in lines).encode())
