"""Finds the names of shared libraries in read-only data, which dlopen or LoadLibrary may be given.

The data are searched while they stream by, and nothing is kept of them but the names and where they
lie: which of the places count, an ELF file's section headers say, at its end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from binary_checks.model import OpenedNames
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.library_names import LONGEST, Spelling, read_name
from binary_checks.objects.library_texts import IsCode, LibraryTexts
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.ranges import intersect, merge

_BLOCK = 1 << 18  # bytes read at a time of what did not stream by: they stay in the cache
_REACH = 4 * LONGEST  # bytes looked at before and behind a place, at most
_LONGEST_ENDING = 16  # bytes
_MOST_PLACES = 1 << 16  # that look like the end of a name; real objects have some hundreds
_MOST_NAMES = 1 << 12

Extent = tuple[int, int]


def find_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    spelling: Spelling,
    known: Iterable[str],
    wanted: Iterable[Extent],
) -> OpenedNames:
    """The names in those parts of a file, without the ``known`` ones, whatever their case.

    Where a scanner has ``seen`` the file stream by, its parts are not read again.
    """
    extents = merge(wanted)
    scanner = seen
    if scanner is None:
        scanner = NameScanner(
            intersect(extents, [(0, source.size)]), spelling, factor=source.factor
        )
        scanner.read(source)
    return scanner.conclude(frozenset(name.lower() for name in known), extents)


class NameScanner:
    """Searches a file for names while it streams by."""

    def __init__(
        self,
        extents: Iterable[Extent],
        spelling: Spelling,
        *,
        device: DeviceScanner | None = None,
        is_code: IsCode | None = None,
        factor: int = 1,
    ) -> None:
        """``extents`` are where names may lie.

        Passed over is what ``device``, which has to see each piece before, finds to be code for a
        GPU, wherever it lies, and what ``is_code`` tells to be code.
        """
        self._extents = merge(extents)
        self._left = list(reversed(self._extents))  # the next one last
        self._spelling = spelling
        self._device = device
        self._is_code = is_code
        self._ending = re.compile(spelling.ending)
        self._seen = 0  # bytes of the file
        self._searched: list[Extent] = []
        self._device_code: list[Extent] = []
        self._tail = b""  # of what was searched, what the next place may reach back to
        self._looked = 0  # offset up to which all places were looked at
        self._passed = 0, b""  # where the last code ends, and its end
        self._found: dict[str, list[int]] = {}  # names by their places
        self._places = 0
        self._stopped = ""  # why nothing more is searched
        self._factor = factor
        self.texts = LibraryTexts()  # which lie among the names

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece of the file, of which nothing is worth keeping."""
        offset = self._seen
        self._seen += len(piece)
        if self._left and not self._stopped:
            start = offset
            for jump in self._device.jumps if self._device is not None else ():
                self._take(piece, offset, start, jump[0])
                self._device_code.append(jump)
                start = max(start, jump[1])
            self._take(piece, offset, start, self._seen)
        return ()

    def read(self, source: LimitedSource) -> None:
        """Go through all extents of a source that can be read anywhere."""
        for start, end in self._extents:
            for offset in range(start, end, _BLOCK):
                if self._stopped:
                    return
                self._take(source.read(offset, min(_BLOCK, end - offset)), offset, offset, end)

    def conclude(self, known: frozenset[str], wanted: tuple[Extent, ...]) -> OpenedNames:
        """What was found in the wanted parts of the file, and why not in all of them."""
        self._finish()
        starts = [start for start, _ in wanted]

        def is_wanted(place: int) -> bool:
            index = bisect_right(starts, place) - 1
            return index >= 0 and place < wanted[index][1]

        names = tuple(
            name
            for name, places in sorted(self._found.items())
            if name.lower() not in known and any(map(is_wanted, places))
        )
        done = merge([*self._searched, *self._device_code])
        left = _measure(wanted) - _measure(intersect(wanted, done))
        unread = f"{left} bytes of its read-only data were not searched" if left else ""
        return OpenedNames(
            names=names, unread=self._stopped or unread, too_large=bool(self._stopped)
        )

    def _take(self, piece: bytes, offset: int, begin: int, end: int) -> None:
        """Search what of a piece lies in an extent, from ``begin`` to ``end``."""
        end = min(end, offset + len(piece))
        while self._left:
            start, stop = self._left[-1]
            first, last = max(start, begin), min(stop, end)
            if first < last:
                self._search(piece, offset, first, last)
            if stop > end:
                return
            self._finish()
            self._left.pop()

    def _search(self, piece: bytes, offset: int, first: int, last: int) -> None:
        """Search a piece, which begins at ``offset``, from a first to a last byte of the file."""
        start, end = first - offset, last - offset
        large = last - first > 8 * _REACH
        if large and self._is_code is not None and self._is_code(piece, start, end, offset):
            self.texts.follows_code = True
            self._passed = last, piece[end - 2 * _REACH : end]
            return
        self._go_on(first, last)
        if large:
            joined = self._tail + piece[start : start + 2 * _REACH]
            self._look(joined, first - len(self._tail), first + _REACH)
            self._look(piece, offset, last - _REACH)
            self._tail = piece[end - 2 * _REACH : end]
        else:
            joined = self._tail + piece[start:end]
            self._look(joined, first - len(self._tail), last - _REACH)
            self._tail = joined[-2 * _REACH :]

    def _go_on(self, first: int, last: int) -> None:
        """Enter what is searched now: behind what was searched before, or at another place."""
        if self._searched and self._searched[-1][1] == first:
            self._searched[-1] = (self._searched[-1][0], last)
            return
        self._finish()
        end, passed = self._passed
        if end == first and passed:  # the first strings may follow code within its last sample
            self._tail = passed
            self._looked = first - len(passed)
        else:
            self._tail = b"\0\0"  # a name may begin where the part does
            self._looked = first
        self._searched.append((self._looked, last))

    def _finish(self) -> None:
        """Look at the last places of what was searched so far."""
        if self._searched:
            end = self._searched[-1][1]
            self._look(self._tail, end - len(self._tail), end)

    def _look(self, window: bytes, offset: int, stop: int) -> None:
        """Look at the places up to ``stop``, of a window that begins at ``offset``."""
        begin, self._looked = self._looked - offset, max(self._looked, stop)
        self.texts.look(window, offset, begin, stop - offset, self._is_code)
        for match in self._ending.finditer(window, begin, stop - offset + _LONGEST_ENDING):
            place = match.start()
            if place >= stop - offset or self._stopped:
                return
            self._places += 1
            if self._places > _MOST_PLACES * self._factor:
                most = _MOST_PLACES * self._factor
                self._stopped = f"it has more than {most} places that look like names"
                return
            name = read_name(window, place, self._spelling)
            if name:
                self._add(name, place + offset)

    def _add(self, name: str, place: int) -> None:
        if name not in self._found and len(self._found) >= _MOST_NAMES * self._factor:
            self._stopped = f"it has more than {_MOST_NAMES * self._factor} names"
            return
        self._found.setdefault(name, []).append(place)


def find_texts(
    source: LimitedSource, seen: NameScanner | None, wanted: Iterable[Extent]
) -> tuple[str, ...]:
    """The texts of libraries in those parts of a file; what streamed by is not read again."""
    extents = tuple(wanted)
    texts = LibraryTexts() if seen is None else seen.texts
    if seen is None:
        texts.read(source, extents)
    return texts.conclude(extents)


def _measure(extents: Iterable[Extent]) -> int:
    return sum(end - start for start, end in extents)
