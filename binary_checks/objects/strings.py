"""Finds the names of shared libraries in read-only data, which dlopen or LoadLibrary may be given.

The data are searched while they stream by, and nothing is kept of them but the names and where they
lie: which of the places count, an ELF file's section headers say, at its end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from binary_checks.knowledge.linked_libraries import ANCHORS, is_telling
from binary_checks.model import Kind, NumpyBuild, ObjectFile, OpenedNames
from binary_checks.model.protocols import ByteSource, Observations, ReadObject
from binary_checks.objects.byte_source import LimitedSource, intersect, merge
from binary_checks.objects.device.scanner import DeviceScanner

# How the names of shared libraries are written, and whether one stands at a place of some data.
#
# A name counts where a whole string of C is one: what a program puts together from pieces
# (``lib%s.so``), paths, and strings without an end, as Go and Rust have them, are left out.

LONGEST: Final = 255
"""Bytes of a file's name, as systems allow."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
_PRINTABLE = bytes(range(0x20, 0x7F))


class Spelling(NamedTuple):
    """How the names of shared libraries are written: expressions, compiled when they are used."""

    ending: bytes  # that every name has; one first letter is searched for fastest
    name: bytes
    prefixed: bool = False  # each begins with "lib": a number before one is no letter of it


ELF_NAMES: Final = Spelling(
    rb"\.so[\0.]", rb"lib[A-Za-z0-9_+.\-]+?\.so(?:\.[0-9]+)*", prefixed=True
)
MACHO_NAMES: Final = Spelling(rb"\.dylib\0", rb"lib[A-Za-z0-9_+.\-]+?\.dylib", prefixed=True)
PE_NAMES: Final = Spelling(
    rb"\.(?:dll\0|DLL\0|\0d\0l\0l\0\0\0)", rb"[A-Za-z][A-Za-z0-9_+.\-]+?\.(?i:dll)"
)


def read_name(window: bytes, place: int, spelling: Spelling) -> str:
    """The name whose ending begins at a place; "" where there is none."""
    wide = not window[place + 1]
    text = _wide_at(window, place) if wide else _string_at(window, place, spelling.prefixed)
    return text.decode("ascii") if text and re.fullmatch(spelling.name, text) else ""


def _string_at(window: bytes, place: int, prefixed: bool) -> bytes:
    """The zero-terminated string around a place; b"" where it is longer than a name, or cut off.

    Before it stands a zero; before one that is known by its prefix, anything but text.
    """
    before = window[max(place - LONGEST, 0) : place]
    start = place - _measure_end(before, _LETTERS)
    if not start or start == place - LONGEST or window[start - 1] in _PRINTABLE:
        return b""
    if window[start - 1] and not prefixed:
        return b""
    end = window.find(b"\0", place, start + LONGEST + 1)
    return window[start:end] if end >= 0 else b""


def _wide_at(window: bytes, place: int) -> bytes:
    """The string in UTF-16 that ends with the characters at a place, in ASCII; b"" for others."""
    end = place + 8
    before = window[place - 2 * min(LONGEST, place // 2) : place]
    length = min(_measure_end(before[::2], _LETTERS), _measure_end(before[1::2], b"\0"))
    start = place - 2 * length
    if window[end - 1 : end + 2] != b"\0\0\0" or start < 2 or length == LONGEST:
        return b""
    low, high = window[start - 2 : start]
    if low in _PRINTABLE and high in _PRINTABLE:
        start += 2  # the last letter of a text before it, with its zero, looks like a first one
    elif low in _PRINTABLE and not high:
        return b""
    return window[start:end:2]


def _measure_end(text: bytes, letters: bytes) -> int:
    """How many of such letters it ends with."""
    return len(text) - len(text.rstrip(letters))


# Texts that libraries compile into themselves, by which they are known where linked in.
#
# They are searched for among the strings that stream by anyway: "deflate 1.3.1
# Copyright 1995-2024 …" stands in whatever has zlib in it. Which texts tell of what, is
# `knowledge.linked_libraries`; one search for each of a few pieces is quicker than one for all.

_BEFORE, _BEHIND = 64, 128  # bytes around what is found that belong to its text
_MOST_PLACES_OF_TEXTS = 1 << 14  # that are looked at; libtorch_cpu.so has some hundreds
_MOST_TEXTS = 64
_BLOCK = 1 << 18  # bytes read at a time of what did not stream by: they stay in the cache
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
            while place >= 0 and self._places < _MOST_PLACES_OF_TEXTS:
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


# The names that an object may open, searched for while it streams by.

_REACH = 4 * LONGEST  # bytes looked at before and behind a place, at most
_LONGEST_ENDING = 16  # bytes
_MOST_PLACES = 1 << 16  # that look like the end of a name; real objects have some hundreds
_MOST_NAMES = 1 << 12


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


# Finds in an object file for which C API of NumPy it was compiled, by a message in it.
#
# ``import_array()`` of NumPy's headers is compiled into every extension module that calls it, with
# the sentence that it ends with where the versions do not fit: up to 1.26 "module compiled against
# API version 0x%x", from 2.0 on "module was compiled against NumPy C-API version 0x%x (NumPy
# 1.25)", which names the oldest NumPy that such a module runs with.

_COMPILED_AGAINST = b"compiled against "
_NUMPY_1 = re.compile(rb"module compiled against API version 0x%x")
_NUMPY_2 = re.compile(
    rb"module was compiled against NumPy C-API version 0x%x \(NumPy (\d{1,3}\.\d{1,3})"
)
_SENTENCE = 128  # bytes around the hint that one sentence takes
_LARGEST_SEARCHED = (
    256 << 20
)  # bytes of an object that is searched: no extension module has as many


class NumpyScanner:
    """Looks for the sentences while a file streams by."""

    def __init__(self) -> None:
        self._tail = b""
        self.first = False
        self.second: set[bytes] = set()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece of the file, of which nothing is worth keeping."""
        self._look(self._tail + piece[:_SENTENCE])
        self._look(piece)
        self._tail = (self._tail + piece[-_SENTENCE:])[-_SENTENCE:]
        return ()

    def _look(self, text: bytes) -> None:
        if _COMPILED_AGAINST in text:
            self.first = self.first or _NUMPY_1.search(text) is not None
            self.second.update(_NUMPY_2.findall(text))

    def conclude(self) -> NumpyBuild | None:
        """For which API the file was compiled; of several the later."""
        if self.second:
            oldest = max(self.second, key=lambda text: tuple(map(int, text.split(b"."))))
            return NumpyBuild(api=2, oldest=oldest.decode())
        return NumpyBuild(api=1) if self.first else None


def is_searched(size: int, factor: int) -> bool:
    """Whether a file of that size is searched at all."""
    return size <= _LARGEST_SEARCHED * factor


def add_build(
    found: tuple[ReadObject, ...], source: LimitedSource, observations: Observations
) -> tuple[ReadObject, ...]:
    """The objects of a file, each with the API that the file was compiled for."""
    scanner = observations.of(NumpyScanner)
    if scanner is None:
        scanner = NumpyScanner()
        for offset in range(
            0, source.size if is_searched(source.size, source.factor) else 0, _BLOCK
        ):
            scanner.see(source.read(offset, min(_BLOCK, source.size - offset)))
    build = scanner.conclude()
    if build is None:
        return found
    return tuple(
        replace(each, numpy=build) if isinstance(each, ObjectFile) else each for each in found
    )


def is_loadable(item: object) -> bool:
    """Whether an object is one that Python may load."""
    return isinstance(item, ObjectFile) and item.kind is Kind.SHARED
