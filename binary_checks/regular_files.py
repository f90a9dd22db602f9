"""Opens files that a stranger may have replaced: by a pipe that nobody writes to, by a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

_READ = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # else a named pipe would wait for its writer
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class NotRegularError(OSError):
    """There is something of that name, and it is no regular file."""

    def __init__(self) -> None:
        super().__init__("not a regular file")


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a regular file to be read; one behind a link only with ``follow``.

    Raises NotRegularError for anything else that has its name, a folder too, and OSError, as
    `open` does.
    """
    descriptor = os.open(path, _READ if follow else _READ | _NO_LINK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123 - flags that Path.open lacks
    os.close(descriptor)
    raise NotRegularError
