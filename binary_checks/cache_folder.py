"""Where we keep what is dear to fetch or to make, and how processes take turns there."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from binary_checks.withheld import user_environment

VARIABLE = "BINARY_CHECKS_CACHE"
"""The environment variable that names the folder of all that we keep."""
IN_USE = 3600.0
"""Seconds after its last use for which nothing is removed."""
_PAUSE = 0.1  # seconds between two looks at a lock


def name_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The user's cache folder, as the system has it; it need not be there."""
    theirs = user_environment() if environ is None else environ
    if named := theirs.get(VARIABLE, ""):
        return Path(named).expanduser().absolute()
    xdg = theirs.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():
        return Path(xdg) / "binary-checks"
    if os.name == "nt" and (local := theirs.get("LOCALAPPDATA", "")):
        return Path(local) / "binary-checks" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "binary-checks"
    return Path.home() / ".cache" / "binary-checks"


@contextmanager
def take_turns(path: Path, timeout: float) -> Iterator[None]:
    """Be the only process with the lock at that path. Raises OSError, TimeoutError for too long."""
    make_private(path.parent)
    until = time.monotonic() + timeout
    with path.open("a+b") as file:
        while not take_lock(file):
            if time.monotonic() > until:
                raise TimeoutError(f"locked by another process for more than {timeout:g} s")
            time.sleep(_PAUSE)
        yield


def make_private(folder: Path) -> None:
    """Make a folder and those above that lack, for this user alone, whatever the umask allows."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def remove_oldest(kept: Iterable[Path], most: int) -> None:
    """Remove the files and folders that were used longest ago, until the rest has so many bytes.

    `os.utime` takes note of a use.
    """
    found: list[tuple[float, int, Path]] = []
    for path in kept:
        with suppress(OSError):
            files = [*path.iterdir()] if path.is_dir() else [path]
            size = sum(each.stat().st_size for each in files)
            found.append((path.stat().st_mtime, size, path))
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):
        if total <= most or time.time() - used < IN_USE:
            return
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            total -= size


def take_lock(file: IO[bytes]) -> bool:
    """Hold the lock of an open file until it is closed; whether nobody else holds it.

    Raises OSError where its file system has no locks: who waits for one would wait for ever.
    """
    lock: Callable[[IO[bytes]], None] = _lock_windows if os.name == "nt" else _lock_posix
    try:
        lock(file)
    except (BlockingIOError, PermissionError):
        return False
    return True


def try_lock(file: IO[bytes]) -> bool:
    """The same, and False where there are no locks."""
    try:
        return take_lock(file)
    except OSError:
        return False


def _lock_posix(file: IO[bytes]) -> None:
    import fcntl

    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_windows(file: IO[bytes]) -> None:
    import msvcrt

    file.seek(0)
    locking, exclusive = vars(msvcrt)["locking"], vars(msvcrt)["LK_NBLCK"]
    locking(file.fileno(), exclusive, 1)
