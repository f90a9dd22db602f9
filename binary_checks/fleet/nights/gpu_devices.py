"""The NVIDIA devices of this host, of which each attempt is lent one that nobody else uses."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from binary_checks.cache_folder import make_private, name_cache_folder, take_lock
from binary_checks.fleet.nights.attempt_process import RunningProcesses, StoppedError

_PAUSE = 0.2  # seconds between two looks for a device that is free


def count_gpus() -> int:
    """The NVIDIA devices of this host that are not hidden from this process."""
    found = len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) or len(
        list(Path("/dev").glob("nvidia[0-9]*"))
    )
    return min(found, len(_list_visible(found)))


@contextlib.contextmanager
def lend_device(count: int, running: RunningProcesses) -> Iterator[str]:
    """Give a device as CUDA names it, "" for whatever there is, once one of so many is free.

    A lock file of this host keeps it from all other attempts, those of other coordinators too.
    Where there are fewer devices than attempts at once, they share them. Raises StoppedError when
    the attempts are ended meanwhile, and OSError where the cache folder can hold no locks.
    """
    folder = name_cache_folder() / "nights"
    make_private(folder)
    while not running.stopped:
        for name, device in _name_locks(count).items():
            with (folder / name).open("a+b") as file:
                if take_lock(file):
                    yield device
                    return
        time.sleep(_PAUSE)
    raise StoppedError("ended before a GPU was free")


def _name_locks(count: int) -> dict[str, str]:
    """The devices of so many attempts at once, by the names of their lock files."""
    host, names = socket.gethostname(), _list_visible(count) or [""]
    found = {}
    for number in range(count):
        device, sharer = names[number % len(names)], number // len(names)
        found[f"{host}.gpu{re.sub('[^A-Za-z0-9-]', '_', device)}.{sharer}.lock"] = device
    return found


def _list_visible(most: int) -> list[str]:
    """The devices as CUDA_VISIBLE_DEVICES names them, of so many at most."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(map(str, range(most)))
    return [each.strip() for each in visible.split(",") if each.strip() not in ("", "-1")]
