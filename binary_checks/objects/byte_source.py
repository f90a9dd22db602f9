"""Refuses what is too much to be read of one file: no fault of it, and not passed over either."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from threading import Lock
from typing import Final

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model.protocols import ByteSource

_MOST_UNPACKED: Final = 32 << 30  # bytes of one package; cuDNN's engines come to some 6 billion
_MOST_READ: Final = 1 << 30  # bytes of their tables; torch's come to 47 MB


class LimitedSource:
    """The bytes of one file, with how many times as much as usual is read of it."""

    def __init__(self, source: ByteSource, factor: int = 1) -> None:
        self._source = source
        self.size = source.size
        self.factor = factor

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        return self._source.read(offset, length)

    def limit(self, most: int) -> int:
        """How much is read of this file where it is ``most`` as a rule."""
        return most * self.factor

    def refuse_more(self, count: int, most: int, what: str) -> None:
        """Raise TooLarge where the file has more of something than is read."""
        if count > (most := self.limit(most)):
            raise TooLarge(f"it has {count} {what}; at most {most} are read")


class DeviceAllowance:
    """How much of one package's device code is still decompressed and read, by all threads.

    It is charged beforehand: thousands of entries that turn out to be broken at their end take as
    long as healthy ones.
    """

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor  # how many times as much as usual is read
        self._most = self._left = _MOST_UNPACKED * factor
        self._most_read = self._read_left = _MOST_READ * factor
        self._lock = Lock()

    def unpack(self, size: int) -> None:
        """Count bytes that an entry claims to unpack to. Raises TooLarge."""
        with self._lock:
            self._left -= size
            left = self._left
        if left < 0:
            raise TooLarge(f"the package's device code unpacks to more than {self._most} bytes")
        self.go_through(0)

    def go_through(self, size: int) -> None:
        """Count bytes of tables and texts. Raises TooLarge."""
        with self._lock:
            self._read_left -= size
            left = self._read_left
        if left < 0:
            most = self._most_read
            raise TooLarge(f"the package's cubins have more than {most} bytes of names and facts")


# What plans are made of: the first bytes of a file, and ranges of it that are joined or cut.


class Head:
    """The first bytes of a file as a ByteSource that claims the whole file's size."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """The bytes, as long as they are among the first."""
        if offset + length > len(self._head):
            raise MalformedError("not among the first bytes", offset)
        return self._head[offset : offset + length]


def complement(
    skipped: Iterable[tuple[int, int]], kept: Iterable[tuple[int, int]], size: int
) -> tuple[tuple[int, int], ...]:
    """Everything from 0 to size but what is skipped, and in any case what is kept.

    Ranges are (start, end); those of the answer are sorted, not empty and do not touch.
    """
    wanted = [(max(start, 0), min(end, size)) for start, end in kept]
    position = 0
    for start, end in sorted(skipped):
        wanted.append((position, min(start, size)))
        position = max(position, min(end, size))
    wanted.append((position, size))
    return merge(wanted)


def merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sort ranges and join those that touch, without empty ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def find_within(places: Iterable[int], ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Those of the places that lie in one of the ranges."""
    merged = merge(ranges)
    for place in places:
        index = bisect_right(merged, place, key=itemgetter(0)) - 1
        if index >= 0 and place < merged[index][1]:
            yield place


def intersect(
    ranges: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """What of the ranges lies in one of the others; none of either touches another of its own."""
    found, rest = [], sorted(others, reverse=True)
    for start, end in sorted(ranges):
        while rest and rest[-1][0] < end:
            first, last = rest[-1]
            if max(start, first) < min(end, last):
                found.append((max(start, first), min(end, last)))
            if last > end:
                break
            rest.pop()
    return tuple(found)
