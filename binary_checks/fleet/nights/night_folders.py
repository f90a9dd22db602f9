"""The folder of a night on this host, in which its attempts have theirs.

A lock shows that its night still runs. The next night ends and removes what a killed one left.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from binary_checks.cache_folder import take_lock, try_lock
from binary_checks.fleet.nights.attempt_process import kill_carriers

_PREFIX = "binary-checks-night-"
_NAME = re.compile(re.escape(_PREFIX) + "[a-z0-9_]{8}")  # as tempfile completes it
_LOCK = "lock"


@contextlib.contextmanager
def open_folder() -> Iterator[str]:
    """Make the folder of a night, and remove it when the block ends.

    Raises OSError where the folder of temporary files has no room, or no locks.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder, lock = _make_folder()
    try:
        yield str(folder)
    finally:
        _empty(folder)
        lock.close()  # Windows removes no open file
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> tuple[Path, IO[bytes]]:
    """A folder, and its lock, which this process holds."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another night may take the folder for abandoned before it has its lock.
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
            lock = opened.enter_context((folder / _LOCK).open("wb"))
            if take_lock(lock) and (folder / _LOCK).exists():
                opened.pop_all()
                return folder, lock


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of nights that were killed, and end what still runs in them."""
    for folder in filter(_is_ours, parent.iterdir()):
        with contextlib.suppress(OSError), (folder / _LOCK).open("r+b") as lock:
            if not try_lock(lock):
                continue
            kill_carriers(str(folder))
            _empty(folder)
            (folder / _LOCK).unlink()
        with contextlib.suppress(OSError):  # it is not empty
            folder.rmdir()


def _empty(folder: Path) -> None:
    """Remove all but the lock, so that the next night goes on where this one is killed."""
    for each in folder.iterdir():
        if each.name != _LOCK:
            shutil.rmtree(each, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether a night of this user made it."""
    if not _NAME.fullmatch(folder.name):
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (os.name == "nt" or found.st_uid == os.geteuid())
