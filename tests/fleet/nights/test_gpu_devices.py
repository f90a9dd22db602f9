"""Each attempt gets a GPU that no other attempt uses at the same time."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from binary_checks.fleet.nights import StoppedError, StopRequest, open_host, reserve_device


@pytest.fixture(autouse=True)
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,MIG-GPU-1/2/0")


def test_each_attempt_has_a_device_of_its_own() -> None:
    with reserve_device(2, StopRequest()) as first, reserve_device(2, StopRequest()) as second:
        assert [first, second] == ["3", "MIG-GPU-1/2/0"]
    with reserve_device(2, StopRequest()) as third:
        assert third == "3"


def test_another_coordinator_waits_for_the_only_device() -> None:
    got = threading.Event()

    def wait() -> None:
        with reserve_device(1, StopRequest()):
            got.set()

    thread = threading.Thread(target=wait)
    with reserve_device(1, StopRequest()):
        thread.start()
        assert not got.wait(0.5)
    assert got.wait(10)
    thread.join()


def test_more_attempts_than_devices_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with reserve_device(2, StopRequest()) as first, reserve_device(2, StopRequest()) as second:
        assert first == second == "0"


def test_a_file_system_without_locks_is_an_error_and_no_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="not implemented"), reserve_device(1, StopRequest()):
        pass
    with pytest.raises(OSError, match="not implemented"), open_host(0):
        pass


def test_who_waits_ends_with_the_night() -> None:
    stop = StopRequest()
    threading.Timer(0.3, stop.make).start()
    with (
        reserve_device(1, StopRequest()),
        pytest.raises(StoppedError, match="before a GPU was free"),
        reserve_device(1, stop),
    ):
        pass
