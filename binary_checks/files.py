"""Files of this host: reading untrusted files, writing complete files, and the cache folder."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from binary_checks.errors import ProfileError
from binary_checks.processes import user_environment

_READ = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # otherwise opening a named pipe would wait for a writer
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ROOTS = (".git", ".hg", ".jj", ".svn")
"""Files at the root of a repository; a file above the root belongs to another project."""
UNFINISHED = ".new-"
"""Prefix of the names of unfinished files; `replace_file_when_complete` leaves one if killed."""


class NotRegularError(OSError):
    """A path exists, but is not a regular file."""

    def __init__(self) -> None:
        super().__init__("not a regular file")


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a regular file for reading; follow a symbolic link only with ``follow``.

    Raises NotRegularError for anything else at the path, including a folder, and OSError as `open`
    does.
    """
    descriptor = os.open(path, _READ if follow else _READ | _NO_LINK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123 - flags that Path.open lacks
    os.close(descriptor)
    raise NotRegularError


def read_named(path: Path, most: int, where: str) -> bytes:
    """Return the contents of a file that the user named; the file may be a link or a pipe.

    Raises ProfileError if the file cannot be read or has more than ``most`` bytes. The message is
    one line that begins with ``where``.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise ProfileError(f"{where}: {error.strerror or error}") from None
    except ValueError:  # it contains a NUL
        raise ProfileError(f"{where}: not the name of a file") from None
    if len(content) > most:
        raise ProfileError(f"{where}: more than {most:,} bytes")
    return content


def walk_up(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it, up to the root of the repository or the file system."""
    for each in (folder, *folder.parents):
        yield each
        if any((each / name).exists() for name in _ROOTS):
            return


@contextmanager
def replace_file_when_complete(path: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a new file in the same folder for writing, and rename it to the path when complete.

    Readers see the old file or the new one, never a part. The new file gets the mode of the old
    file, or ``mode`` if there is no old file. If anything fails, the new file is removed. Raises
    OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        part.chmod(path.stat().st_mode & 0o777 if path.exists() else mode)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


# The cache folder for files that are expensive to download or make, with locks between processes.

VARIABLE = "BINARY_CHECKS_CACHE"
"""The environment variable with the path of the cache folder."""
IN_USE = 3600.0
"""Seconds after its last use during which a file of the cache is not removed."""
_PAUSE = 0.1  # seconds between attempts to lock


def name_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's cache folder for this system; the folder need not exist."""
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
    """Remove the least recently used files and folders until at most ``most`` bytes are left.

    The caller must set a file's time with `os.utime` whenever it uses the file.
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

    Raises OSError if the file system does not support locks, because waiting would never end.
    """
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            locking, exclusive = vars(msvcrt)["locking"], vars(msvcrt)["LK_NBLCK"]
            locking(file.fileno(), exclusive, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
