"""What this host lends to attempts: its NVIDIA devices, and a folder for each night."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from binary_checks.files import make_private, name_cache_folder, take_lock
from binary_checks.fleet.night import GPU, Attempt
from binary_checks.fleet.nights.attempt_process import StoppedError, StopRequest, kill_carriers
from binary_checks.fleet.nights.attempting import AttemptTask, run_attempt
from binary_checks.fleet.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptHost:
    """The attempts of one coordinator on this host."""

    folder: str  # where they make their folders
    gpus: int  # how many of them may use a GPU at once
    stop: StopRequest

    def run(self, task: AttemptTask, store: Store) -> Attempt:
        """Run an attempt, with a GPU of its own if it needs one."""
        if task.stage != GPU:
            return run_attempt(task, store, self.stop, folder=self.folder)
        with reserve_device(self.gpus, self.stop) as device:
            return run_attempt(task, store, self.stop, folder=self.folder, device=device)


# NVIDIA devices of this host: each attempt gets one that no other attempt uses.

_PAUSE = 0.2  # seconds between two searches for a free device


def count_gpus() -> int:
    """Return how many NVIDIA devices this process can see."""
    found = len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) or len(
        list(Path("/dev").glob("nvidia[0-9]*"))
    )
    return min(found, len(_list_visible(found)))


@contextlib.contextmanager
def reserve_device(count: int, stop: StopRequest) -> Iterator[str]:
    """Wait for a free device, and yield its name for CUDA, or "" for any device.

    A lock file on this host reserves the device, so that no other coordinator uses it, either. If
    ``count`` exceeds the number of devices, attempts share them. Raises StoppedError if attempts
    are ended meanwhile, and OSError if the cache folder supports no locks.
    """
    folder = name_cache_folder() / "nights"
    make_private(folder)
    while not stop.made:
        for name, device in _name_locks(count).items():
            with (folder / name).open("a+b") as file:
                if take_lock(file):
                    yield device
                    return
        time.sleep(_PAUSE)
    raise StoppedError("ended before a GPU was free")


def _name_locks(count: int) -> dict[str, str]:
    """Return lock file -> device, with ``count`` entries."""
    host, names = socket.gethostname(), _list_visible(count) or [""]
    found = {}
    for number in range(count):
        device, sharer = names[number % len(names)], number // len(names)
        found[f"{host}.gpu{re.sub('[^A-Za-z0-9-]', '_', device)}.{sharer}.lock"] = device
    return found


def _list_visible(most: int) -> list[str]:
    """Return the devices in CUDA_VISIBLE_DEVICES; if it is not set, the first ``most``."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(map(str, range(most)))
    return [each.strip() for each in visible.split(",") if each.strip() not in ("", "-1")]


# The folder of a night on this host, which contains the folders of its attempts.
#
# A locked file shows that the night still runs. The next night removes the folders of killed
# nights, and ends the processes in them.

_PREFIX = "binary-checks-night-"
_LOCK = "lock"


@contextlib.contextmanager
def open_host(gpus: int) -> Iterator[AttemptHost]:
    """Yield this host with a folder, which is removed when the block ends.

    Raises OSError if the folder for temporary files is full or supports no locks.
    """
    for abandoned in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_abandoned(abandoned)
    folder, lock = _make_folder()
    try:
        yield AttemptHost(folder=str(folder), gpus=gpus, stop=StopRequest())
    finally:
        lock.close()  # Windows cannot remove an open file
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> tuple[Path, IO[bytes]]:
    """Return a new folder and its locked file."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another night may remove the folder as abandoned before it is locked: then try again.
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
            lock = opened.enter_context((folder / _LOCK).open("wb"))
            if take_lock(lock) and (folder / _LOCK).exists():
                opened.pop_all()
                return folder, lock


def _remove_abandoned(folder: Path) -> None:
    """Remove the folder of a killed night of this user, and kill what still runs in it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (os.name != "nt" and found.st_uid != os.geteuid()):
        return
    # one that was removed in part has no such file any more
    with (folder / _LOCK).open("a+b") as lock:
        if take_lock(lock):
            kill_carriers(str(folder))
            shutil.rmtree(folder, ignore_errors=True)
