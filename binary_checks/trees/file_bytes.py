"""The package file on disk, read at any place by any thread, never mapped into memory.

A mapping would count as memory of the process, and kill it when somebody truncates the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from binary_checks.errors import PackageError

Spans: TypeAlias = Iterable[tuple[int, int]]
"""Places in a file: (start, end) in bytes."""


class PackageBytes(Protocol):
    """The bytes of a package file, here or on a server, asked for by place from any thread."""

    @property
    def path(self) -> Path:
        """The file, or of one on a server its name: messages begin with the last component."""

    @property
    def size(self) -> int:
        """Bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return length bytes from offset, fewer where the file ends before.

        Raises PackageError or GatherError when they cannot be had.
        """

    def expect(self, spans: Spans) -> None:
        """Hear which bytes will be asked for next, so that few requests fetch them."""


class FileBytes:
    """An open file whose bytes are asked for by place."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        """Return length bytes from offset, fewer where the file ends before.

        Raises PackageError when the system cannot read them.
        """
        try:
            if hasattr(os, "pread"):
                return os.pread(self._descriptor, length, offset)
            with self._lock:  # Windows has no pread
                os.lseek(self._descriptor, offset, os.SEEK_SET)
                return os.read(self._descriptor, length)
        except OSError as error:
            raise PackageError(f"{self.path.name}: cannot be read: {error.strerror}") from None

    def expect(self, spans: Spans) -> None:
        """Do nothing: a disk answers at once."""


@contextmanager
def open_bytes(path: Path) -> Iterator[FileBytes]:
    """Open a regular file for reading; PackageError where there is none that can be read."""
    if not path.is_file():
        found = "not a regular file" if path.exists() else "no such file"
        raise PackageError(f"{path.name}: {found}")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise PackageError(f"{path.name}: cannot be opened: {error.strerror}") from None
    try:
        yield FileBytes(path, descriptor)
    finally:
        os.close(descriptor)
