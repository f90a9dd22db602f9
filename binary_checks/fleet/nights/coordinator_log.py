"""What a coordinator prints about its night, and the log of it, which is kept with the night.

A line is printed for each cell; the log also has a line for each attempt.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
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
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

LARGEST_LOG = 16 << 20  # bytes
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class CoordinatorLog:
    """Prints and records what happens in a night, in order."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._cells, self._ended = out, 0, 0
        self._lines: list[str] = []
        host = socket.gethostname()
        self._name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.{host}"
        self.note(f"binary-checks {__version__} on {host}, process {os.getpid()}")

    def begin(self, cells: int, begun: int) -> None:
        """Print the number of cells, and how many of them have results already."""
        self._cells = cells
        resumed = f", {begun} of them started before" if begun else ""
        self.print_line(f"{count(cells, 'cell')}{resumed}")

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
        """Print how a cell ended, why, how long all its attempts took, and how many have ended."""
        self._ended += 1
        text = f"{LETTERS[end.state]} {planned.cell.id}: {end.state.value}"
        if why := end.evidence or end.reason:
            text += f": {why}"
        seconds = sum(each.seconds for each in end.attempts)
        self.print_line(f"{text} ({seconds:,.1f} s; {self._ended:,} of {self._cells:,})")

    def print_line(self, text: str) -> None:
        """Print and record a message."""
        self.note(text)
        self._out.write(f"{cut(one_line(text))}\n")
        self._out.flush()

    def note(self, text: str) -> None:
        """Record a message alone."""
        self._lines.append(f"{now()} {cut(one_line(text))}\n")

    def keep(self, store: Store, night: str) -> bool:
        """Store the log; return False if the night was closed meanwhile and cannot change.

        Raises StoreError.
        """
        if store.read(closed_name(night)) is not None:
            return False
        began = _UNSAFE.sub("-", self._name)[:80]
        name = coordinator_log_name(night, f"{began}.{secrets.token_hex(4)}")
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
