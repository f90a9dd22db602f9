"""Keeps bytes while a package is read: few in memory, many in an unlinked file."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO

from binary_checks.errors import MalformedError
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.protocols import ObjectReader, Observations, TreeEntry, Want

_MOST = 128 << 20  # bytes of contents of one package; torch 2.15 has 33 MiB of Python, ansible 60
_IN_MEMORY = 16 << 20  # bytes kept before they go to the file
_FRAGMENTS_IN_MEMORY = 4 << 20
_SAME_PLACE = 4  # fragments that may begin at one offset


class Kept:
    """Bytes that are appended, and read from any place."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0  # bytes
        self._file: IO[bytes] | None = None

    def append(self, piece: bytes) -> None:
        """Take the next bytes, without a copy as long as they are few."""
        if self._file is None and self.size + len(piece) > _IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rest
            self._file.writelines(self._pieces)
            self._file.flush()  # a full disk is met here, not when it is read
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(piece)
            self._starts.append(self.size)
        else:
            self._file.write(piece)
        self.size += len(piece)

    def read(self, offset: int, length: int) -> bytes:
        """That many bytes from a place on; all must be there, and nothing is appended any more."""
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
        """Let go of the bytes."""
        self._pieces.clear()
        self._starts.clear()
        if self._file is not None:
            self._file.close()


class Fragments:
    """Pieces by where they lie, in rising order of their offsets; they may overlap."""

    def __init__(self) -> None:
        self._starts = array("Q")
        self._places = array("Q", [0])  # of each piece among the bytes kept
        self._end = 0  # of the last piece
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None

    def add(self, offset: int, piece: bytes) -> None:
        """Keep a piece that begins nowhere before the last one, and may continue it."""
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
        """Those bytes, None where they do not lie in one piece."""
        last = bisect_right(self._starts, offset) - 1
        for index in range(last, max(last - _SAME_PLACE, -1), -1):
            place = self._places[index] + offset - self._starts[index]
            if self._file is not None and place + length <= self._places[index + 1]:
                self._file.seek(place)
                return self._file.read(length)
        return None

    def close(self) -> None:
        """Let go of the bytes."""
        if self._file is not None:
            self._file.close()
        self._file = None


class KeptContents:
    """The contents that some facts want, as many of them as there is room for.

    Members are charged in their order, by the sizes that their tree lists, before they are read.
    What finds no room is read again by the fact that asks for it.
    """

    def __init__(self, wants: Sequence[Want] = ()) -> None:
        self._wants = tuple(wants)
        self._listed = False
        self._left = _MOST
        self._chosen: dict[str, TreeEntry] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._full = False  # whether the disk had no more room
        self._kept = Kept()
        self._lock = Lock()

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose among all members that will be read."""
        self._listed = True
        self._wants = tuple(
            want for want in self._wants if want.beside is None or any(map(want.beside, entries))
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
        """Whether it is kept; of several members of one name, the last."""
        if not self._listed:  # as members of a stream come, nothing is known of later ones
            self._choose(entry)
        return self._chosen.get(entry.stored) is entry

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._kept.size

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Keep the content of a member, as long as the disk has room for it."""
        with self._lock:
            if self._full:
                return
            place = self._kept.size
            try:
                self._kept.append(content)
            except OSError:  # what is not kept is read again: no verdict depends on it
                self._full = True
                self.close()
            else:
                self._places[entry.stored] = place, len(content)

    def find(self, stored: str) -> bytes | None:
        """The content of the member that is stored by that name, None where it is not kept."""
        place = self._places.get(stored)
        return None if place is None else self._kept.read(*place)

    def close(self) -> None:
        """Let go of all contents."""
        self._places.clear()
        with suppress(OSError):  # of a full disk
            self._kept.close()


# Keeps of an object file, while it streams by, the ranges that its reader plans to ask for.

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
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        check_extent(offset, length, self.size)
        return self._content[offset : offset + length]


class RetainedSource:
    """Ranges of a large file; a reader that asks for other bytes has it read again, whole.

    The ranges lie one behind the other in memory, or in an unlinked file once they are many.
    Fragments that a scanner came upon lie beside them. ``again`` inflates the file from its start:
    a reader plans by the first bytes alone, and patchelf moves tables to places which these do not
    tell.
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
        self._places = [0]  # of each range among the bytes kept
        for start, end in self._ranges:
            self._places.append(self._places[-1] + end - start)
        self._streamed = 0
        self._next = 0  # the first range that is not complete yet
        self._kept = Kept()

    def append(self, piece: bytes) -> None:
        """Take the next bytes of the file and keep those that lie in a range."""
        begin = self._streamed
        self._streamed = finish = begin + len(piece)
        while self._next < len(self._ranges):
            start, end = self._ranges[self._next]
            if start >= finish:
                return
            self._kept.append(piece[max(start - begin, 0) : end - begin])  # all of it is no copy
            if end > finish:
                return
            self._next += 1

    def add_fragment(self, offset: int, fragment: bytes) -> None:
        """Keep some bytes more, which begin nowhere before the last ones."""
        self._fragments.add(offset, fragment)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
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
        """Let go of the bytes."""
        self._kept.close()
        self._fragments.close()


class StreamedObject:
    """An object file that streams by: kept and scanned as its reader plans, and then read."""

    def __init__(
        self, reader: ObjectReader, head: bytes, size: int, again: Callable[[], Iterator[bytes]]
    ) -> None:
        """``head`` are the first bytes; a longer one makes the reader keep less."""
        plan = reader.plan(head, size)
        self._reader = reader
        self._scanners = plan.scanners
        self._source = RetainedSource(size, plan.ranges, again)

    def append(self, piece: bytes) -> None:
        """Show the next piece of the file to every scanner, and keep of it what was planned."""
        for scanner in self._scanners:
            for offset, fragment in scanner.see(piece):
                self._source.add_fragment(offset, fragment)
        self._source.append(piece)

    def read(self, path: str) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file, once all of it has streamed by."""
        return self._reader.read_objects(path, self._source, Observations(self._scanners))

    def close(self) -> None:
        """Let go of the bytes."""
        self._source.close()


def check_extent(offset: int, length: int, size: int) -> None:
    """Raise MalformedError unless those bytes lie inside a file of that size."""
    if offset < 0 or length < 0 or offset + length > size:
        raise MalformedError(f"{length} bytes are asked for and the file has {size}", offset)


def merge_ranges(ranges: Iterable[Range], size: int) -> list[Range]:
    """Sort ranges, cut them to the file's size and join those that touch."""
    merged: list[Range] = []
    for start, end in sorted((max(0, start), min(end, size)) for start, end in ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
