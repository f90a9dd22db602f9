"""Bytes that are kept while a package is read: few in memory, many in an unlinked file."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO

from binary_checks.errors import MalformedError
from binary_checks.model import (
    ContentRequest,
    MalformedObject,
    ObjectFile,
    ObjectReader,
    Observations,
    TreeEntry,
    UnreadObject,
)

_MOST = 128 << 20  # bytes of contents of one package; torch 2.15 has 33 MiB of Python, ansible 60
_IN_MEMORY = 16 << 20  # bytes kept in memory before they go to the file
_FRAGMENTS_IN_MEMORY = 4 << 20
_SAME_PLACE = 4  # fragments that may begin at one offset


class ByteStore:
    """A store to which bytes are appended, and from which they are read at any offset."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0  # bytes
        self._file: IO[bytes] | None = None

    def append(self, piece: bytes) -> None:
        """Append bytes; they are not copied as long as the store is small."""
        if self._file is None and self.size + len(piece) > _IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the store
            self._file.writelines(self._pieces)
            self._file.flush()  # so that a full disk is reported here, not when the bytes are read
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(piece)
            self._starts.append(self.size)
        else:
            self._file.write(piece)
        self.size += len(piece)

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``.

        All of these bytes must have been appended. After the first read, nothing may be appended.
        """
        if self._file is not None:
            self._file.seek(offset)
            return self._file.read(length)
        index = bisect_right(self._starts, offset) - 1
        start = offset - self._starts[index]
        found = self._pieces[index][start : start + length]
        if len(found) == length:
            return found
        last = bisect_right(self._starts, offset + length - 1)
        return b"".join(self._pieces[index:last])[start : start + length]

    def close(self) -> None:
        """Release the bytes."""
        self._pieces.clear()
        self._starts.clear()
        if self._file is not None:
            self._file.close()


class Fragments:
    """Pieces of a file with their offsets, in ascending order; they may overlap."""

    def __init__(self) -> None:
        self._starts = array("Q")
        self._places = array("Q", [0])  # start of each piece in the temporary file
        self._end = 0  # end of the last piece, an offset in the original file
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None

    def add(self, offset: int, piece: bytes) -> None:
        """Keep a piece, which must not begin before the last one, and may directly follow it."""
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(max_size=_FRAGMENTS_IN_MEMORY)  # noqa: SIM115
        self._file.seek(self._places[-1])
        self._file.write(piece)
        if self._starts and offset == self._end:
            self._places[-1] += len(piece)
        else:
            self._starts.append(offset)
            self._places.append(self._places[-1] + len(piece))
        self._end = offset + len(piece)

    def find(self, offset: int, length: int) -> bytes | None:
        """Return these bytes, or None if no single piece contains them."""
        last = bisect_right(self._starts, offset) - 1
        for index in range(last, max(last - _SAME_PLACE, -1), -1):
            place = self._places[index] + offset - self._starts[index]
            if self._file is not None and place + length <= self._places[index + 1]:
                self._file.seek(place)
                return self._file.read(length)
        return None

    def close(self) -> None:
        """Release the bytes."""
        if self._file is not None:
            self._file.close()
        self._file = None


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
        with suppress(OSError):  # a full disk
            self._kept.close()


# Object files: while one is streamed, only the ranges that its reader plans to read are kept.

Range = tuple[int, int]


class MemorySource:
    """The bytes of a small file, all in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return len(self._content)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes. Raises MalformedError if the file ends before."""
        check_extent(offset, length, self.size)
        return self._content[offset : offset + length]


class RetainedSource:
    """Ranges of a large file; reading any other bytes reads the whole file again.

    The ranges are stored one after another, in memory, or in an unlinked file if they are large.
    Fragments that a scanner found are stored in addition. ``again`` streams the file from its
    start. It is needed because a reader plans the ranges from the file's first bytes only, and
    patchelf moves tables to offsets that the first bytes do not show.
    """

    def __init__(
        self, size: int, ranges: Iterable[Range], again: Callable[[], Iterator[bytes]]
    ) -> None:
        self.size = size
        self._again = again
        self._fragments = Fragments()
        self._start_over(ranges)

    def _start_over(self, ranges: Iterable[Range]) -> None:
        self._ranges = merge_ranges(ranges, self.size)
        self._starts = [start for start, _ in self._ranges]
        self._places = [0]  # start of each range in the store
        for start, end in self._ranges:
            self._places.append(self._places[-1] + end - start)
        self._streamed = 0
        self._next = 0  # index of the first range that is not complete yet
        self._kept = ByteStore()

    def append(self, piece: bytes) -> None:
        """Add the next bytes of the file, and keep those in a range."""
        begin = self._streamed
        self._streamed = finish = begin + len(piece)
        while self._next < len(self._ranges):
            start, end = self._ranges[self._next]
            if start >= finish:
                return
            # a slice of a complete bytes object copies nothing
            self._kept.append(piece[max(start - begin, 0) : end - begin])
            if end > finish:
                return
            self._next += 1

    def add_fragment(self, offset: int, fragment: bytes) -> None:
        """Keep additional bytes, which must not begin before the fragment that was added last."""
        self._fragments.add(offset, fragment)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes. Raises MalformedError if the file ends before."""
        check_extent(offset, length, self.size)
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset + length > self._ranges[index][1]:
            fragment = self._fragments.find(offset, length)
            if fragment is not None or not length:
                return fragment or b""
            self.close()
            self._start_over([(0, self.size)])
            for piece in self._again():
                self.append(piece)
            index = 0
        return self._kept.read(self._places[index] + offset - self._ranges[index][0], length)

    def close(self) -> None:
        """Release the bytes."""
        self._kept.close()
        self._fragments.close()


class StreamedObject:
    """An object file that is streamed: its reader's planned ranges are kept, then it is read."""

    def __init__(
        self, reader: ObjectReader, head: bytes, size: int, again: Callable[[], Iterator[bytes]]
    ) -> None:
        """``head`` is the file's beginning; the longer it is, the less the reader plans to keep."""
        plan = reader.plan(head, size)
        self._reader = reader
        self._scanners = plan.scanners
        self._source = RetainedSource(size, plan.ranges, again)

    def append(self, piece: bytes) -> None:
        """Pass the next piece of the file to every scanner, and keep the planned ranges."""
        for scanner in self._scanners:
            for offset, fragment in scanner.see(piece):
                self._source.add_fragment(offset, fragment)
        self._source.append(piece)

    def read(self, path: str) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Return all objects in the file, after all of it was streamed."""
        return self._reader.read_objects(path, self._source, Observations(scanners=self._scanners))

    def close(self) -> None:
        """Release the bytes."""
        self._source.close()


def check_extent(offset: int, length: int, size: int) -> None:
    """Raise MalformedError unless these bytes lie inside a file of that size."""
    if offset < 0 or length < 0 or offset + length > size:
        raise MalformedError(f"{length} bytes were requested, but the file has {size}", offset)


def merge_ranges(ranges: Iterable[Range], size: int) -> list[Range]:
    """Sort ranges, cut them to the file's size, and join those that touch."""
    merged: list[Range] = []
    for start, end in sorted((max(0, start), min(end, size)) for start, end in ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
