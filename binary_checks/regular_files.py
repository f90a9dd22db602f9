"""Reading files that may be anything, even a stranger's pipe or link, and writing files whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from binary_checks.errors import ProfileError

_READ = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # otherwise opening a named pipe would wait for a writer
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
UNFINISHED = ".new-"
"""Prefix of the names of unfinished files, left by `written_beside` if its process is killed."""


class NotRegularError(OSError):
    """Something of that name exists, but is not a regular file."""

    def __init__(self) -> None:
        super().__init__("not a regular file")


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a regular file for reading; follow a link only with ``follow``.

    Raises NotRegularError for anything else of that name, including a folder, and OSError as `open`
    does.
    """
    descriptor = os.open(path, _READ if follow else _READ | _NO_LINK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123 - flags that Path.open lacks
    os.close(descriptor)
    raise NotRegularError


def demand_parent(path: Path, shown: str | Path, where: str) -> None:
    """Raise ProfileError if the folder of a file to be written does not exist.

    Creating it silently would hide a mistyped path. The line begins with ``where`` and names the
    file as the user did.
    """
    try:
        if path.parent.is_dir():
            return
    except (OSError, ValueError):  # access is denied, or the name contains a NUL
        pass
    folder = Path(shown).parent
    raise ProfileError(f"{where}: {shown}: there is no folder {folder}: make it first")


def read_named(path: Path, most: int, where: str) -> bytes:
    """Return the contents of a file that the user names, which may be a link or a pipe.

    Raises ProfileError, one line that begins with ``where``, also for more than ``most`` bytes.
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


@contextmanager
def written_beside(path: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a new file in the same folder for writing, and rename it to the path when complete.

    Readers see the old file or the new one. It gets the mode of the old file, else the given one.
    If anything fails, nothing is left of it. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        part.chmod(path.stat().st_mode & 0o777 if path.exists() else mode)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
