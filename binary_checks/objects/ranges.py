"""Turns ranges of a file that nobody reads into those that must be kept."""

from __future__ import annotations

from collections.abc import Iterable


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
    return _merge(wanted)


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)
