"""The bytes of one file: limits on reading them, and byte ranges.

A file that exceeds a limit is not faulty, but must not pass as inspected either: TooLarge is
raised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from threading import Lock
from typing import Final

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import ByteSource

_MOST_UNPACKED: Final = 32 << 30  # bytes per package; cuDNN's engines unpack to 6 billion
# Bytes of section names, notes and attributes of cubins per package; torch's have 47 MB.
_MOST_READ: Final = 1 << 30


class LimitedSource:
    """The bytes of one file, with a factor on all limits on reading."""

    def __init__(self, source: ByteSource, factor: int = 1) -> None:
        self._source = source
        self.size = source.size
        self.factor = factor

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``. Raises MalformedError."""
        return self._source.read(offset, length)

    def limit(self, most: int) -> int:
        """Return the limit to apply to this file instead of the default limit ``most``."""
        return most * self.factor

    def require_at_most(self, count: int, most: int, what: str) -> None:
        """Raise TooLarge if ``count`` exceeds the default limit ``most`` times the factor."""
        if count > (most := self.limit(most)):
            raise TooLarge(f"it has {count} {what}; at most {most} are read")


class DeviceAllowance:
    """The remaining amount of a package's device code that may be decompressed and read.

    Several threads share an allowance. Bytes are charged before the work is done, because thousands
    of entries that turn out to be broken at their end take as long as intact ones.
    """

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor  # multiplies both limits
        self._most = self._left = _MOST_UNPACKED * factor
        self._most_read = self._read_left = _MOST_READ * factor
        self._lock = Lock()

    def charge_unpacking(self, size: int) -> None:
        """Charge the bytes that an entry claims to unpack to. Raises TooLarge."""
        with self._lock:
            self._left -= size
            left = self._left
        if left < 0:
            raise TooLarge(f"the package's device code unpacks to more than {self._most} bytes")
        self.charge_reading(0)

    def charge_reading(self, size: int) -> None:
        """Charge bytes of tables and texts that are about to be read. Raises TooLarge."""
        with self._lock:
            self._read_left -= size
            left = self._read_left
        if left < 0:
            most = self._most_read
            what = "section names, notes and attributes"
            raise TooLarge(f"the package's cubins have more than {most} bytes of {what}")


# Plans: the first bytes of a file, and arithmetic of byte ranges. A range is (start, end), in bytes
# from the start of the file, without the byte at ``end``.


class Head:
    """The first bytes of a file, as a ByteSource with the size of the complete file."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes that are among the first ones. Raises MalformedError for other bytes."""
        if offset + length > len(self._head):
            raise MalformedError("not among the first bytes", offset)
        return self._head[offset : offset + length]


def complement(
    skipped: Iterable[tuple[int, int]], kept: Iterable[tuple[int, int]], size: int
) -> tuple[tuple[int, int], ...]:
    """Return all ranges from 0 to ``size`` without the skipped ranges, plus the kept ranges.

    The result is sorted; its ranges are not empty and do not touch.
    """
    wanted = [(max(start, 0), min(end, size)) for start, end in kept]
    position = 0
    for start, end in sorted(skipped):
        wanted.append((position, min(start, size)))
        position = max(position, min(end, size))
    wanted.append((position, size))
    return merge(wanted)


def merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sort ranges and join those that touch or overlap; drop empty ones."""
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
    """Yield the places that lie in one of the ranges."""
    merged = merge(ranges)
    for place in places:
        index = bisect_right(merged, place, key=itemgetter(0)) - 1
        if index >= 0 and place < merged[index][1]:
            yield place


def intersect(
    ranges: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the parts of the ranges that also lie in ``others``.

    The ranges of one argument must not overlap each other.
    """
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
