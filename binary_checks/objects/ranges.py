"""What plans are made of: the first bytes of a file, and ranges of it that are joined or cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

from binary_checks.errors import MalformedError


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
