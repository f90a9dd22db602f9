"""The folder for files that are expensive to fetch or make, and locks for processes that use it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from binary_checks.environment import user_environment

VARIABLE = "BINARY_CHECKS_CACHE"
"""The environment variable with the path of the cache folder."""
IN_USE = 3600.0
"""Nothing is removed until so many seconds after its last use."""
_PAUSE = 0.1  # seconds between attempts to lock


def name_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's cache folder for this system; it may not exist."""
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
    """Hold the lock at that path exclusively.

    Raises OSError, or TimeoutError after ``timeout`` s.
    """
    make_private(path.parent)
    until = time.monotonic() + timeout
    with path.open("a+b") as file:
        while not take_lock(file):
            if time.monotonic() > until:
                raise TimeoutError(f"locked by another process for more than {timeout:g} s")
            time.sleep(_PAUSE)
        yield


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for this user only, whatever the umask."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def remove_oldest(kept: Iterable[Path], most: int) -> None:
    """Remove the least recently used files and folders until the rest has at most ``most`` bytes.

    Set a file's time with `os.utime` when it is used.
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
    """Lock an open file until it is closed; return False if another process holds the lock.

    Raises OSError if the file system has no locks, as waiting would never end.
    """
    lock: Callable[[IO[bytes]], None] = _lock_windows if os.name == "nt" else _lock_posix
    try:
        lock(file)
    except (BlockingIOError, PermissionError):
        return False
    return True


def try_lock(file: IO[bytes]) -> bool:
    """Lock an open file until it is closed; return False also if there are no locks."""
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
