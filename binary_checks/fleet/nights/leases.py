"""Who runs a night: of coordinators with cells in common one, and another only after its death.

Each takes a ticket, numbered on without a gap, for the store creates a name only once. Whoever
finds a smaller ticket with cells in common, and its holder alive, withdraws. No two hosts' clocks
are ever compared: a holder lives if its process does, where that can be seen, and else as long as
the beats beside its ticket go on.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import encode_fields
from binary_checks.errors import BinaryChecksError, StoreError
from binary_checks.fleet.nights.attempt_process import kill_carriers
from binary_checks.fleet.nights.process_identity import ProcessIdentity, identify
from binary_checks.fleet.records import open_document, write_document
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import lease_prefix

_SCHEMA = "binary-checks/lease/1"
BEAT = 30.0  # seconds
STALE = 300.0  # seconds without a beat, after which a holder that cannot be seen is dead
FOLDER_PREFIX = "binary-checks-night-"
_FOLDER = re.compile(re.escape(FOLDER_PREFIX) + "[a-z0-9_]{8}")  # as tempfile completes it
_TICKET = re.compile(r"(\d{6})\.json")
_BEAT = re.compile(r"(\d{6})\.beat(\d+)")
_ENDED = re.compile(r"(\d{6})\.ended")


class HeldError(BinaryChecksError):
    """Another coordinator runs some of the cells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """A coordinator's claim to cells of a night."""

    number: int
    token: str  # of this coordinator alone
    holder: ProcessIdentity
    folder: str  # where its attempts have theirs, on its host
    cells: tuple[str, ...]  # ids, with the stage: two queues of one cell are two


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseTimes:
    """How often a holder says that it lives, and how long it is waited for; seconds."""

    beat: float = BEAT
    stale: float = STALE


@contextlib.contextmanager
def hold_lease(  # noqa: PLR0913 - what is claimed, and how
    store: Store,
    night: str,
    cells: Collection[str],
    folder: str,
    *,
    times: LeaseTimes,
    tell: Callable[[str], None],
    lost: Callable[[str], None],
) -> Iterator[Ticket]:
    """Run these cells of the night alone, until the block ends.

    ``tell`` gets what there is to wait for, ``lost`` why the block has to end early: another one
    took this holder for dead. Raises HeldError where another one runs some of them.
    """
    leases = _Leases(store, night)
    ticket = leases.take(tuple(sorted(cells)), folder)
    try:
        for other in leases.before(ticket):
            _outlive(leases, other, times, tell)
        with _beating(leases, ticket, times.beat, lost):
            yield ticket
    finally:
        with contextlib.suppress(StoreError):  # what is left of it says that its process has ended
            leases.end(ticket.number)


def _outlive(
    leases: _Leases, other: Ticket, times: LeaseTimes, tell: Callable[[str], None]
) -> None:
    """Return once the other holder is dead, and what it started too; raise HeldError else."""
    who = f"a coordinator on {other.holder.host} (process {other.holder.pid})"
    gone = other.holder.is_gone
    if gone is None:
        tell(f"waiting up to {times.stale:,.0f} s to see whether {who} is still alive")
        gone = _is_silent(leases, other, times)
    if not gone:
        raise HeldError(f"{who} runs cells of this night already; nothing was started")
    tell(f"{who} is dead: taking over what it left")
    leases.end(other.number)
    if other.holder.is_gone and _is_ours(Path(other.folder)):
        kill_carriers(other.folder)
        shutil.rmtree(other.folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether a night of this user made it: what a ticket says, whoever can write there wrote."""
    if not folder.is_absolute() or not _FOLDER.fullmatch(folder.name) or ".." in folder.parts:
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _is_silent(leases: _Leases, other: Ticket, times: LeaseTimes) -> bool:
    """Whether it let no beat follow for so long, by the clock of this process alone."""
    first, end = leases.state_of(other.number), time.monotonic() + times.stale
    while time.monotonic() < end:
        time.sleep(min(times.beat / 2, max(0.0, end - time.monotonic())))
        now = leases.state_of(other.number)
        if now is None:
            return True  # it ended meanwhile
        if now != first:
            return False
    return True


@contextlib.contextmanager
def _beating(
    leases: _Leases, ticket: Ticket, pause: float, lost: Callable[[str], None]
) -> Iterator[None]:
    """Say again and again that the holder lives; learn whether another one thinks otherwise."""
    over = threading.Event()

    def beat() -> None:
        number = 0
        while not over.wait(pause):
            with contextlib.suppress(StoreError):  # the next one may get through
                if leases.state_of(ticket.number) is None:
                    lost("another coordinator took this one for dead, and runs its cells")
                    return
                number = leases.beat(ticket.number, number)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(pause)


class _Leases:
    """The tickets of one night in the store."""

    def __init__(self, store: Store, night: str) -> None:
        self._store, self._prefix = store, lease_prefix(night)

    def take(self, cells: tuple[str, ...], folder: str) -> Ticket:
        """Create the next ticket; numbers have no gap, so that none comes in before it later."""
        number, token = 1 + max(self._list(_TICKET), default=0), uuid.uuid4().hex
        while True:
            ticket = Ticket(
                number=number, token=token, holder=identify(os.getpid()), folder=folder, cells=cells
            )
            document = write_document({"schema": _SCHEMA, **encode_fields(ticket)})
            if self._store.create(f"{self._prefix}{number:06}.json", document):
                return ticket
            number += 1

    def before(self, ticket: Ticket) -> list[Ticket]:
        """The smaller ones that have not ended, and have cells in common with it."""
        ended = set(self._list(_ENDED))
        held = (n for n in self._list(_TICKET) if n < ticket.number and n not in ended)
        asked = {*ticket.cells}
        return [other for other in map(self._read, held) if not asked.isdisjoint(other.cells)]

    def _read(self, number: int) -> Ticket:
        name = f"{self._prefix}{number:06}.json"
        try:
            fields = open_document(self._store.read(name) or b"", _SCHEMA)
            return Ticket(**decode_fields(Ticket, fields))
        except OddityError as error:
            raise StoreError(f"{self._store.url}: {name}: {error}") from None

    def state_of(self, number: int) -> int | None:
        """Its last beat, 0 for none; None once it has ended."""
        if number in self._list(_ENDED):
            return None
        return max(self._list(_BEAT, number), default=0)

    def beat(self, number: int, last: int) -> int:
        """Follow the last beat by another; the number of that one."""
        name = f"{self._prefix}{number:06}.beat"
        self._store.create(f"{name}{last + 1}", b"")
        self._store.delete(f"{name}{last}")
        return last + 1

    def end(self, number: int) -> None:
        """Say that its holder has ended."""
        self._store.create(f"{self._prefix}{number:06}.ended", b"")
        for last in list(self._list(_BEAT, number)):
            self._store.delete(f"{self._prefix}{number:06}.beat{last}")

    def _list(self, pattern: re.Pattern[str], number: int | None = None) -> Iterator[int]:
        """The last number in each name of that pattern: of tickets, or of one ticket's beats."""
        start = self._prefix if number is None else f"{self._prefix}{number:06}."
        for stored in self._store.names(start):
            found = pattern.fullmatch(stored.name.rpartition("/")[2])
            if found:
                yield int(found[found.re.groups])
