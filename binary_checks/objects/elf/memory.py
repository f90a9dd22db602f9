"""What a loader maps of an ELF file: by address, which pages may be read, written and run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from binary_checks.objects.elf.segments import PF_R, PF_W, PF_X, PT_LOAD, Segment
from binary_checks.objects.ranges import merge

PAGE = 4096  # bytes of the smallest page of any architecture here: loaders protect whole ones
_AT_ONCE: Final = 1 << 14  # addresses: as Python's integers, all of a large table take much memory

Ranges = tuple[tuple[int, int], ...]


class Memory:
    """The pages of all PT_LOAD segments; ranges are (start, end), sorted, and do not touch."""

    __slots__ = ("code", "mapped", "readable", "written")

    def __init__(self, segments: Iterable[Segment], tables: Iterable[tuple[int, int]]) -> None:
        """Tables are where no code is although a segment with code holds them."""
        loads = [s for s in segments if s.type == PT_LOAD and s.memory_size]
        self.mapped = merge(map(_pages, loads))
        self.readable = merge(_pages(load) for load in loads if load.flags & PF_R)
        self.written = merge(_pages(load) for load in loads if load.flags & PF_W)
        code = merge(
            (load.address, load.address + load.file_size) for load in loads if load.flags & PF_X
        )
        self.code = _subtract(code, merge(tables))


def _subtract(ranges: Ranges, holes: Ranges) -> Ranges:
    """What is left of the ranges without the holes."""
    left = list(ranges)
    for start, end in holes:
        left = [
            piece
            for first, last in left
            for piece in ((first, min(last, start)), (max(first, end), last))
            if piece[0] < piece[1]
        ]
    return tuple(left)


def _pages(load: Segment) -> tuple[int, int]:
    end = load.address + load.memory_size
    return load.address // PAGE * PAGE, -(-end // PAGE) * PAGE


def holds(ranges: Ranges, start: int, size: int) -> bool:
    """Whether one of the ranges holds so many bytes from there on."""
    end = start + size
    for first, last in ranges:  # noqa: SIM110 - a generator takes twice as long, and all ask here
        if first <= start and end <= last:
            return True
    return False


def find_outside(ranges: Ranges, addresses: Sequence[int]) -> int | None:
    """The lowest of the addresses that lie in none of the ranges; None where there is no such."""
    blocks = (addresses[at : at + _AT_ONCE] for at in range(0, len(addresses), _AT_ONCE))
    lowest = (_find_in_block(ranges, list(block)) for block in blocks)
    return min((address for address in lowest if address is not None), default=None)


def _find_in_block(ranges: Ranges, addresses: list[int]) -> int | None:
    low, high = min(addresses), max(addresses)
    if holds(ranges, low, high + 1 - low):
        return None  # as nearly always, at the speed of C
    ordered = sorted(addresses)
    position = 0
    for start, end in ranges:
        if bisect_left(ordered, start) > position:
            break
        position = bisect_left(ordered, end)
    return ordered[position] if position < len(ordered) else None
