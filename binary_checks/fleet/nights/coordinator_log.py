"""The log of a coordinator: each line that it prints, with its time, kept with the night.

A terminal shows cells that ended well only in a counter; the log has a line for every attempt.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections import deque
from collections.abc import Iterator, Sequence

from binary_checks import __version__
from binary_checks.errors import RecordError
from binary_checks.fleet.night import Attempt, CellEnd, PlannedCell
from binary_checks.fleet.nights.attempting import NextAttempt
from binary_checks.fleet.nights.coordinating import NightProgress, format_end
from binary_checks.fleet.store import (
    Store,
    closed_name,
    coordinator_log_name,
    coordinator_log_prefix,
)
from binary_checks.fleet.stored_nights import now
from binary_checks.safe_text import cut, one_line

LARGEST_LOG = 16 << 20  # bytes
_MOST = 10_000  # lines from the beginning, and as many from the end
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class CoordinatorLog:
    """Records what happens in a night, and passes it on to another display."""

    def __init__(self, screen: NightProgress) -> None:
        self._screen = screen
        self._began, self._host = now(), socket.gethostname()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_MOST)
        self._left_out = 0
        self.note(f"binary-checks {__version__} on {self._host}, process {os.getpid()}")

    def begin(self, cells: int, begun: int) -> None:
        """Pass on the number of cells."""
        self.note(f"cells: {cells}, started before: {begun}")
        self._screen.begin(cells, begun)

    def show(self, running: Sequence[str]) -> None:
        """Pass on the running attempts, which are not recorded."""
        self._screen.show(running)

    def finish(self, attempt: Attempt, following: NextAttempt | None, most: int) -> None:
        """Record how an attempt ended."""
        text = attempt.evidence or attempt.reason
        again = f"; attempt {following.number} in {following.pause:,.0f} s" if following else ""
        name = f"{attempt.cell}.{attempt.stage}{attempt.number}"
        why = f": {text}" if text else ""
        self.note(
            f"{name} on {attempt.host or 'an unknown host'}: {attempt.state.value}{why}{again}"
        )
        self._screen.finish(attempt, following, most)

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """Record how a cell ended."""
        self.note(format_end(planned, end))
        self._screen.end(planned, end)

    def print_line(self, text: str) -> None:
        """Record a message, and pass it on."""
        self.note(text)
        self._screen.print_line(text)

    def note(self, text: str) -> None:
        """Record a message alone."""
        line = f"{now()} {cut(one_line(text))}"
        if len(self._first) < _MOST:
            self._first.append(line)
        else:
            self._left_out += len(self._last) == _MOST
            self._last.append(line)

    def keep(self, store: Store, night: str) -> bool:
        """Store the log; return False if the night was closed meanwhile and cannot change.

        Raises StoreError.
        """
        if store.read(closed_name(night)) is not None:
            return False
        gap = [f"({self._left_out} lines are left out)"] if self._left_out else []
        content = "".join(f"{line}\n" for line in (*self._first, *gap, *self._last))
        host = _UNSAFE.sub("-", self._host).strip("-")[:60] or "host"
        began = re.sub(r"[-:]|\+.*", "", self._began)
        name = coordinator_log_name(night, f"{began}Z.{host}.{secrets.token_hex(4)}")
        return store.create(name, content.encode())


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
