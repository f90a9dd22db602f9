"""Keeps of an object file, while it streams by, the ranges that its reader plans to ask for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from binary_checks.errors import MalformedError
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.protocols import ObjectReader, Observations
from binary_checks.trees.kept import Fragments, Kept

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
