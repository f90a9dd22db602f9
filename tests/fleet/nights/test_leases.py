"""Who runs the cells of a night, where holders cannot see each other's processes."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.nights.leases import HeldError, LeaseTimes, Ticket, hold_lease
from binary_checks.fleet.nights.process_identity import identify
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import lease_prefix
from tests.fleet.nights.night_cells import NIGHT

TIMES = LeaseTimes(beat=0.05, stale=0.4)


@contextmanager
def hold(store: Store, *cells: str, lost: list[str] | None = None) -> Iterator[Ticket]:
    said = [] if lost is None else lost
    with hold_lease(
        store, NIGHT, cells, "", times=TIMES, tell=lambda _: None, lost=said.append
    ) as ticket:
        yield ticket


def write_foreign(store: Store, number: int, *cells: str) -> None:
    """A ticket of a host whose processes cannot be seen from here."""
    holder = {"host": "elsewhere", "numbering": "", "pid": 7, "started": ""}
    write_ticket(store, number, holder=holder, folder="", cells=cells)


def write_ticket(store: Store, number: int, **said: object) -> None:
    row = {"schema": "binary-checks/lease/1", "number": number, "token": "t", **said}
    store.create(f"{lease_prefix(NIGHT)}{number:06}.json", json.dumps(row).encode())


def test_a_live_process_of_this_host_keeps_what_it_holds(store: Store) -> None:
    with hold(store, "cpu:a", "cpu:b"):
        with (
            pytest.raises(HeldError, match="runs cells of this night already"),
            hold(store, "cpu:b", "cpu:c"),
        ):
            pass
        with hold(store, "cpu:c") as other:  # the one that withdrew holds nothing
            assert other.number == 3
    with hold(store, "cpu:a"):
        pass


def test_a_holder_elsewhere_that_beats_is_alive(store: Store) -> None:
    write_foreign(store, 1, "cpu:a")
    over = threading.Event()

    def beat() -> None:
        for number in range(1, 1000):
            store.create(f"{lease_prefix(NIGHT)}000001.beat{number}", b"")
            store.delete(f"{lease_prefix(NIGHT)}000001.beat{number - 1}")
            if over.wait(0.05):
                return

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(HeldError, match="on elsewhere"), hold(store, "cpu:a"):
            pass
    finally:
        over.set()
        thread.join()


def test_a_holder_elsewhere_that_is_silent_is_dead_by_the_clock_of_whoever_waits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_foreign(store, 1, "cpu:a")
    monkeypatch.setattr(time, "time", lambda: -1e9)  # no wall clock has a say
    start = time.monotonic()
    with hold(store, "cpu:a") as ticket:
        assert ticket.number == 2
    assert time.monotonic() - start >= TIMES.stale


def test_a_holder_that_was_taken_for_dead_learns_of_it(store: Store) -> None:
    lost = list[str]()
    with hold(store, "cpu:a", lost=lost) as ticket:
        store.create(f"{lease_prefix(NIGHT)}{ticket.number:06}.ended", b"")
        end = time.monotonic() + 10
        while not lost and time.monotonic() < end:
            time.sleep(0.01)
    assert lost == ["another coordinator took this one for dead, and runs its cells"]


def test_of_many_at_once_one_runs(store: Store) -> None:
    together, winners = threading.Barrier(8), list[int]()
    over = threading.Event()

    def take() -> None:
        together.wait()
        try:
            with hold(store, "cpu:a") as ticket:
                winners.append(ticket.number)
                over.wait(10)
        except HeldError:
            return

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads[:-1]:
        thread.join(1)
    over.set()
    for thread in threads:
        thread.join()
    assert winners == [1]


def test_an_ended_ticket_leaves_no_beat(store: Store) -> None:
    with hold(store, "cpu:a"):
        time.sleep(0.2)
    names = [each.name.rpartition("/")[2] for each in store.names(lease_prefix(NIGHT))]
    assert names == ["000001.ended", "000001.json"]


@pytest.mark.parametrize("name", ["home", "binary-checks-night-abcdefgh"])
def test_a_ticket_cannot_have_other_folders_removed(
    store: Store, tmp_path: Path, name: str
) -> None:
    """Whoever can write to the store could write there what is to be deleted on this host."""
    folder = tmp_path / name
    folder.mkdir()
    dead = subprocess.Popen(["sleep", "60"])
    holder = asdict(identify(dead.pid))
    dead.kill()
    dead.wait()
    write_ticket(store, 1, holder=holder, folder=str(folder), cells=["cpu:a"])
    with hold(store, "cpu:a"):
        pass
    assert folder.exists() is (name == "home")


def test_a_ticket_of_a_newer_version_is_one_line(store: Store) -> None:
    store.create(f"{lease_prefix(NIGHT)}000001.json", b'{"schema":"binary-checks/lease/2"}')
    with pytest.raises(StoreError, match="a newer binary-checks wrote it"), hold(store, "cpu:a"):
        pass
