"""The bytes of a package file, on disk or on a server, read at any offset by any thread.

The file is never mapped into memory: a mapping would count as memory of the process, and the
process would be killed if the file were truncated while it is mapped.
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from binary_checks.errors import GatherError, PackageError, Unavailable

if TYPE_CHECKING:
    from binary_checks.model import RemoteFile


_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
"""Errors of opening a file that no package causes."""
Spans: TypeAlias = Iterable[tuple[int, int]]
"""Ranges of a file: (start, end) in bytes."""


class PackageBytes(Protocol):
    """The bytes of a package file on disk or on a server, read at any offset by any thread."""

    @property
    def path(self) -> Path:
        """The path of the file, or the name of a file on a server.

        Messages begin with its last part.
        """

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer if the file ends before.

        Raises PackageError or GatherError if they cannot be read.
        """

    def expect(self, spans: Spans) -> None:
        """Announce which bytes will be read next, so that few requests fetch them."""


class FileBytes:
    """An open file whose bytes are read at any offset."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer if the file ends before.

        Raises PackageError if the system cannot read them.
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
        """Do nothing: disks have no latency worth saving."""


@contextmanager
def open_bytes(path: Path) -> Iterator[FileBytes]:
    """Open a file for reading.

    Raises PackageError if it is not a regular file or unreadable, GatherError if the machine is at
    its limits.
    """
    if not path.is_file():
        found = "not a regular file" if path.exists() else "no such file"
        raise PackageError(f"{path.name}: {found}")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        blamed = GatherError if error.errno in _OF_MACHINE else PackageError
        raise blamed(f"{path.name}: cannot be opened: {error.strerror}") from None
    try:
        yield FileBytes(path, descriptor)
    finally:
        os.close(descriptor)


# A package file on a server, read by few range requests, which fetch no byte twice.
#
# A server takes some tens of milliseconds to answer, whether for one byte or for a hundred
# thousand. So ranges near each other are fetched together, and distant ranges at the same time.

# bytes at the end of a file, with the directory of most archives and the texts before it
_TAIL = 256 << 10
_GAP = 32 << 10  # bytes between two ranges that are fetched as one
_AHEAD = 16 << 10  # bytes that a request fetches at the least
_AT_ONCE = 8  # requests that are sent at the same time
# bytes that range requests may fetch; an archive that needs more should be downloaded
_MOST = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """The number of range requests, and of the bytes that they fetched."""

    requests: int
    size: int  # bytes


class RangedBytes:
    """The bytes of a remote file; bytes that were fetched are kept."""

    def __init__(self, name: str, file: RemoteFile) -> None:
        self.path = Path(name)
        self.size = file.size
        self._file = file
        self._lock = threading.Lock()
        self._pieces: list[tuple[int, bytes]] = []  # sorted by offset, without overlaps
        self._requests = self._fetched = 0
        self.expect([(self.size - _TAIL, self.size)])

    @property
    def transfer(self) -> Transfer:
        """The requests and bytes until now."""
        return Transfer(requests=self._requests, size=self._fetched)

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer if the file ends before.

        Raises RemoteChanged or GatherError, and Unavailable if too much of the file would be read.
        """
        start, end = max(offset, 0), min(offset + length, self.size)
        if start >= end:
            return b""
        with self._lock:
            if self._find_gaps(start, end):
                self._fetch([(start, max(end, min(start + _AHEAD, self.size)))])
            found = [
                content[max(start - begins, 0) : max(end - begins, 0)]
                for begins, content in self._pieces[self._before(start) : self._before(end) + 1]
            ]
            return b"".join(found)

    def expect(self, spans: Spans) -> None:
        """Fetch all parts of these ranges that were not fetched yet; join parts near each other."""
        with self._lock:
            self._fetch(spans)

    def _fetch(self, spans: Spans) -> None:
        wanted = [
            gap
            for start, end in _merge((max(start, 0), min(end, self.size)) for start, end in spans)
            for gap in self._find_gaps(start, end)
        ]
        more = sum(end - start for start, end in wanted)
        if self._fetched + more > _MOST:
            reason = f"{self._fetched + more} bytes of it would have to be read"
            raise Unavailable(
                f"{self.path.name}: {reason}; at most {_MOST} are read without a download"
            )
        if len(wanted) == 1:
            contents = [self._ask(wanted[0])]
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                contents = [*pool.map(self._ask, wanted)]
        starts = (start for start, _ in wanted)
        self._pieces = sorted([*self._pieces, *zip(starts, contents, strict=True)])
        self._requests += len(wanted)
        self._fetched += more

    def _ask(self, span: tuple[int, int]) -> bytes:
        wanted = span[1] - span[0]
        content = self._file.read(span[0], wanted)
        if len(content) != wanted:
            reason = f"the server sent {len(content)} bytes instead of {wanted}"
            raise GatherError(f"{self.path.name}: {reason}")
        return content

    def _find_gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are not fetched yet."""
        gaps = []
        for begins, content in self._pieces[self._before(start) :]:
            if begins >= end:
                break
            if begins > start:
                gaps.append((start, begins))
            start = max(start, begins + len(content))
        return [*gaps, (start, end)] if start < end else gaps

    def _before(self, place: int) -> int:
        """Return the index of the last piece that begins at or before an offset."""
        return max(bisect_right(self._pieces, place, key=lambda piece: piece[0]) - 1, 0)


def _merge(spans: Spans) -> list[tuple[int, int]]:
    """Join ranges that overlap or are near each other; drop empty ranges."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + _GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
