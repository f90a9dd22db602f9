"""Bytes that are kept while a package is read: few in memory, many in an unlinked file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from threading import Lock
from typing import IO

from binary_checks.errors import MalformedError
from binary_checks.model import ContentRequest, TreeEntry

_MOST = 128 << 20  # bytes of contents of one package; torch 2.15 has 33 MiB of Python, ansible 60
_IN_MEMORY = 4 << 20  # bytes kept in memory before they go to the file


class ByteStore:
    """Bytes that are appended, and read at any offset: a ByteSource.

    Many bytes are kept in a file without a name. It is not mapped into memory, because the pages of
    a mapping count as memory of the process.
    """

    def __init__(self, content: bytes = b"") -> None:
        self._file: IO[bytes] = BytesIO(content)
        self._lock = Lock()  # Windows has no pread, so a place is sought and read at once
        self.size = len(content)

    def append(self, piece: bytes) -> None:
        """Append bytes. Raises OSError if the disk is full."""
        with self._lock:
            memory = self._file
            if isinstance(memory, BytesIO) and self.size + len(piece) > _IN_MEMORY:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the store
                self._file.write(memory.getbuffer())
            self._file.seek(self.size)
            self._file.write(piece)
            self.size += len(piece)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes. Raises MalformedError if there are not so many."""
        check_extent(offset, length, self.size)
        with self._lock:
            self._file.seek(offset)
            return self._file.read(length)

    def close(self) -> None:
        """Release the bytes."""
        with suppress(OSError):  # a full disk
            self._file.close()


def check_extent(offset: int, length: int, size: int) -> None:
    """Raise MalformedError unless these bytes lie inside a file of that size."""
    if offset < 0 or length < 0 or offset + length > size:
        raise MalformedError(f"{length} bytes were requested, but the file has {size}", offset)


class BoundedContentStore:
    """The contents of members that facts request, as many as there is room for.

    The members to keep are chosen before any is read, in their order, by the sizes that the tree
    lists. A fact that requests another member reads it again.
    """

    def __init__(self, wants: Sequence[ContentRequest] = ()) -> None:
        self._wants = tuple(wants)
        self._listed = False
        self._left = _MOST
        self._chosen: dict[str, TreeEntry] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._full = False  # whether the disk is full
        self._kept = ByteStore()
        self._lock = Lock()

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose the members to keep from all members that will be read."""
        self._listed = True
        self._wants = tuple(
            want
            for want in self._wants
            if want.only_with is None or any(map(want.only_with, entries))
        )
        if self._wants:
            for entry in entries:
                self._choose(entry)

    def _choose(self, entry: TreeEntry) -> None:
        size = entry.size
        if any(size <= want.longest and want.chooses(entry) for want in self._wants) and (
            size <= self._left
        ):
            self._left -= size
            self._chosen[entry.stored] = entry

    def wants(self, entry: TreeEntry) -> bool:
        """Return whether to keep the member; if members have equal names, only the last is kept."""
        if not self._listed:  # a streamed archive does not list later members
            self._choose(entry)
        return self._chosen.get(entry.stored) is entry

    @property
    def size(self) -> int:
        """The number of bytes kept."""
        return self._kept.size

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Keep the content of a member, unless the disk is full."""
        with self._lock:
            if self._full:
                return
            place = self._kept.size
            try:
                self._kept.append(content)
            except OSError:  # facts read the content again, so no verdict depends on it
                self._full = True
                self.close()
            else:
                self._places[entry.stored] = place, len(content)

    def find(self, stored: str) -> bytes | None:
        """Return the content of the member stored by this name, or None if it is not kept."""
        place = self._places.get(stored)
        return None if place is None else self._kept.read(*place)

    def close(self) -> None:
        """Release all contents."""
        self._places.clear()
        self._kept.close()
