"""Finds texts that libraries compile into themselves, by which they are known where linked in.

They are searched for among the strings that stream by anyway (`opened_names`): "deflate 1.3.1
Copyright 1995-2024 …" stands in whatever has zlib in it. Which texts tell of what, is
`knowledge.library_marks`; one search for each of a few pieces is quicker than one for all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from binary_checks.knowledge.linked_libraries import ANCHORS, is_telling
from binary_checks.model.protocols import ByteSource
from binary_checks.objects.ranges import intersect, merge

_BEFORE, _BEHIND = 64, 128  # bytes around what is found that belong to its text
_MOST_PLACES = 1 << 14  # that are looked at; libtorch_cpu.so has some hundreds
_MOST_TEXTS = 64
_BLOCK = 1 << 18
_GRAIN = 1 << 14  # bytes that are code as a whole, or not
_SAMPLE = 1 << 9  # of these, their last
_VECTORS = b"\xc4\xc5\x62"  # the prefixes VEX and EVEX
_CFA_OFFSET = b"\x0e"  # DW_CFA_def_cfa_offset
_START = re.compile(rb"[\t\x20-\x7e]*\Z")
_REST = re.compile(rb"[\t\x20-\x7e]*")

Extent = tuple[int, int]
IsCode = Callable[[bytes, int, int, int], bool]
"""Whether a part of a piece, from start to end, is code, all of it; the piece's offset is last."""


def _is_dense(sample: bytes) -> bool:
    """Whether it looks like vector code of x86, or like what unwinds the stack.

    Of libtorch_cpu.so's constants 3 samples in 1,000 do, and 8 in 10 of .eh_frame.
    """
    vectors = len(sample) - len(sample.translate(None, _VECTORS))
    return vectors * 10 >= len(sample) or sample.count(_CFA_OFFSET) * 43 >= len(sample)


class LibraryTexts:
    """The texts of one file, with their places, as it goes by."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = {}
        self._places = 0
        self.follows_code = False  # whether code went by

    def look(
        self, window: bytes, offset: int, begin: int, end: int, is_code: IsCode | None = None
    ) -> None:
        """Look at what begins between two places of a window, whose first byte is at ``offset``.

        Where one segment has code and strings, ``is_code`` tells them apart by samples, so that
        what lies amid code is passed over. There nothing but tables lies before the first code.
        """
        if end <= begin:  # of which an end before the window would count from behind
            return
        if is_code is None:
            self._search(window, offset, begin, end)
            return
        blocks = [(start, min(start + _GRAIN, end)) for start in range(begin, end, _GRAIN)]
        samples = [(max(stop - _SAMPLE, begin), stop) for _, stop in blocks]
        dense = [
            is_code(window, start, stop, offset) or _is_dense(window[start:stop])
            for start, stop in samples
        ]
        for index, (start, stop) in enumerate(blocks):
            amid_code = sum(dense[max(index - 1, 0) : index + 2]) >= 2  # one in ten looks otherwise
            if self.follows_code and not amid_code:
                self._search(window, offset, start, stop)
            self.follows_code = self.follows_code or dense[index]

    def _search(self, window: bytes, offset: int, begin: int, end: int) -> None:
        for anchor in ANCHORS:
            place = window.find(anchor, begin, end + len(anchor) - 1)
            while place >= 0 and self._places < _MOST_PLACES:
                self._places += 1
                self._take(window, place, place + offset)
                place = window.find(anchor, place + 1, end + len(anchor) - 1)

    def _take(self, window: bytes, place: int, offset: int) -> None:
        before = _START.search(window[max(place - _BEFORE, 0) : place])
        rest = _REST.match(window, place, place + _BEHIND)
        if before is None or rest is None:
            return
        text = (before[0] + rest[0]).decode("ascii").strip()
        if text in self._found:
            self._found[text].append(offset)
        elif len(self._found) < _MOST_TEXTS and is_telling(text):
            self._found[text] = [offset]

    def read(self, source: ByteSource, extents: Iterable[Extent]) -> None:
        """Look at all of those parts of a file that can be read anywhere."""
        for start, end in intersect(merge(extents), [(0, source.size)]):
            tail = b""
            for offset in range(start, end, _BLOCK):
                window = tail + source.read(offset, min(_BLOCK, end - offset))
                first = offset - len(tail)
                last = len(window) if offset + _BLOCK >= end else len(window) - _BEHIND
                begin = len(tail) and min(len(tail), _BEFORE)
                self.look(window, first, begin, max(last, begin))
                tail = window[max(last - _BEFORE, 0) :]

    def conclude(self, wanted: Iterable[Extent]) -> tuple[str, ...]:
        """Those that begin in the wanted parts of the file, sorted."""
        extents = merge(wanted)
        starts = [start for start, _ in extents]

        def is_wanted(place: int) -> bool:
            index = bisect_right(starts, place) - 1
            return index >= 0 and place < extents[index][1]

        return tuple(sorted(t for t, places in self._found.items() if any(map(is_wanted, places))))
