"""Search the strings of object files.

The search is for three kinds of strings: names of libraries that may be passed to dlopen or
LoadLibrary, texts left by statically linked libraries, and NumPy's message that states the C API.

Files are searched while they are streamed; only the found names and their offsets are kept. Which
offsets count is known only at the end: the section headers at the end of an ELF file show which
parts are read-only data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from binary_checks.knowledge.linked_libraries import ANCHORS, is_mark
from binary_checks.model import (
    ByteSource,
    Kind,
    NumpyBuild,
    ObjectFile,
    Observations,
    OpenedNames,
    ReadObject,
)
from binary_checks.objects.byte_source import LimitedSource, find_within, intersect, merge
from binary_checks.objects.compiler_options import NativeScanner
from binary_checks.objects.device.scanner import DeviceScanner

# Names of shared libraries, and whether a string at some offset is one.
#
# Only a complete C string counts. Templates (``lib%s.so``), paths, and strings without a final NUL,
# as Go and Rust write them, do not count.

LONGEST: Final = 255
"""The longest file name that systems allow (NAME_MAX), in bytes."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
_PRINTABLE = bytes(range(0x20, 0x7F))


class NamePattern(NamedTuple):
    """Regular expressions for file names of shared libraries."""

    ending: bytes  # matches the end of every name; a fixed first letter makes the search fast
    name: bytes
    # Whether every name begins with "lib", so that a digit before "lib" is not part of the name.
    prefixed: bool = False


ELF_NAMES: Final = NamePattern(
    rb"\.so[\0.]", rb"lib[A-Za-z0-9_+.\-]+?\.so(?:\.[0-9]+)*", prefixed=True
)
MACHO_NAMES: Final = NamePattern(rb"\.dylib\0", rb"lib[A-Za-z0-9_+.\-]+?\.dylib", prefixed=True)
PE_NAMES: Final = NamePattern(
    rb"\.(?:dll\0|DLL\0|\0d\0l\0l\0\0\0)", rb"[A-Za-z][A-Za-z0-9_+.\-]+?\.(?i:dll)"
)


def read_name(window: bytes, place: int, pattern: NamePattern) -> str:
    """Return the name whose ending begins at ``place``; "" if there is none."""
    wide = not window[place + 1]
    text = _wide_at(window, place) if wide else _string_at(window, place, pattern.prefixed)
    return text.decode("ascii") if text and re.fullmatch(pattern.name, text) else ""


def _string_at(window: bytes, place: int, prefixed: bool) -> bytes:
    """Return the NUL-terminated string around ``place``; b"" if it is too long or cut off.

    The byte before the string must be a NUL. If names have the prefix "lib", any byte that is not
    printable is accepted instead.
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
    """Return the UTF-16 string whose suffix (``.dll``) begins at ``place``, as ASCII, or b""."""
    end = place + 8
    before = window[place - 2 * min(LONGEST, place // 2) : place]
    length = min(_measure_end(before[::2], _LETTERS), _measure_end(before[1::2], b"\0"))
    start = place - 2 * length
    if window[end - 1 : end + 2] != b"\0\0\0" or start < 2 or length == LONGEST:
        return b""
    low, high = window[start - 2 : start]
    if low in _PRINTABLE and high in _PRINTABLE:
        # The last letter of a preceding ASCII text and its NUL look like a first UTF-16 letter.
        start += 2
    elif low in _PRINTABLE and not high:
        return b""
    return window[start:end:2]


def _measure_end(text: bytes, letters: bytes) -> int:
    """Return the number of characters at the end of ``text`` that are among ``letters``."""
    return len(text) - len(text.rstrip(letters))


# Texts that libraries compile into themselves, and that identify statically linked libraries.
#
# Example: every object that contains zlib has "deflate 1.3.1 Copyright 1995-2024 …".
# `knowledge.linked_libraries` decides which texts count. Searching once for each of a few anchors
# is faster than one regular expression for all texts.

_BEFORE, _BEHIND = 64, 128  # bytes before and behind an anchor that may belong to its text
_MOST_PLACES_OF_TEXTS = 1 << 14  # limit on anchors; libtorch_cpu.so has some hundreds
_MOST_TEXTS = 64
_BLOCK = 1 << 18  # bytes per read if the file was not streamed; a block stays in the CPU's cache
_GRAIN = 1 << 14  # bytes of a block; a block counts as code completely or not at all
_SAMPLE = 1 << 9  # bytes of a block's sample, taken at its end
_VECTORS = b"\xc4\xc5\x62"  # first bytes of VEX and EVEX prefixes (Intel SDM, volume 2, chapter 2)
_CFA_OFFSET = b"\x0e"  # DW_CFA_def_cfa_offset (DWARF 5, section 7.24), frequent in .eh_frame
_START = re.compile(rb"[\t\x20-\x7e]*\Z")
_REST = re.compile(rb"[\t\x20-\x7e]*")

Extent = tuple[int, int]
IsCode = Callable[[bytes, int, int, int], bool]
"""Called with a piece, start and end in the piece, and the piece's offset in the file. Returns
whether all bytes from start to end are machine code.
"""


def _is_dense(sample: bytes) -> bool:
    """Return whether a sample looks like vector code of x86 or like unwind tables (.eh_frame).

    In libtorch_cpu.so, 0.3 % of the samples of constants look like this, and 80 % of the samples of
    .eh_frame. A sample counts if 10 % of its bytes are VEX or EVEX bytes, or 1 in 43 is
    DW_CFA_def_cfa_offset.
    """
    vectors = len(sample) - len(sample.translate(None, _VECTORS))
    return vectors * 10 >= len(sample) or sample.count(_CFA_OFFSET) * 43 >= len(sample)


class LibraryTexts:
    """Collects the texts of one file, with their offsets, while the file is streamed."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = {}
        self._places = 0
        self.follows_code = False  # whether any code was seen

    def look(
        self, window: bytes, offset: int, begin: int, end: int, is_code: IsCode | None = None
    ) -> None:
        """Search for texts that begin between ``begin`` and ``end`` of a window.

        ``offset`` is the file offset of the window's first byte. If one segment contains both code
        and strings, ``is_code`` distinguishes them by samples, and blocks within code are skipped.
        Everything before the first code is skipped, too: in such a segment only tables precede the
        code.
        """
        if end <= begin:  # a negative end would count from the end of the window
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
            # A tenth of the samples is misjudged, so a neighbour must agree.
            amid_code = sum(dense[max(index - 1, 0) : index + 2]) >= 2
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
        elif len(self._found) < _MOST_TEXTS and is_mark(text):
            self._found[text] = [offset]

    def read(self, source: ByteSource, extents: Iterable[Extent]) -> None:
        """Search these parts of a file that was not streamed."""
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
        """Return the texts that begin in the wanted parts of the file, sorted."""
        return _list_in(self._found, wanted)


# Names of libraries that an object may open, searched for while the file is streamed.

_REACH = 4 * LONGEST  # most bytes searched before and after a place
_LONGEST_ENDING = 16  # bytes
_MOST_PLACES = 1 << 16  # places that look like the end of a name; real objects have some hundreds
_MOST_NAMES = 1 << 12


def find_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    pattern: NamePattern,
    known: Iterable[str],
    wanted: Iterable[Extent],
) -> OpenedNames:
    """Return the names of libraries in the wanted parts of a file.

    Names in ``known`` are left out, regardless of case. If the scanner ``seen`` has searched the
    file while it was streamed, the file is not read again.
    """
    extents = merge(wanted)
    scanner = seen
    if scanner is None:
        scanner = NameScanner(intersect(extents, [(0, source.size)]), pattern, factor=source.factor)
        scanner.read(source)
    return scanner.conclude(frozenset(name.lower() for name in known), extents)


class NameScanner:
    """Searches a file for names of libraries while the file is streamed."""

    def __init__(
        self,
        extents: Iterable[Extent],
        pattern: NamePattern,
        *,
        device: DeviceScanner | None = None,
        is_code: IsCode | None = None,
        factor: int = 1,
    ) -> None:
        """Search the byte ranges ``extents``.

        Code for GPUs found by ``device`` is skipped; that scanner must get each piece of the file
        first. Bytes that ``is_code`` identifies as code are skipped, too.
        """
        self._extents = merge(extents)
        self._left = list(reversed(self._extents))  # in reverse order: the next extent is last
        self._pattern = pattern
        self._device = device
        self._is_code = is_code
        self._ending = re.compile(pattern.ending)
        self._seen = 0  # bytes of the file seen so far
        self._searched: list[Extent] = []
        self._device_code: list[Extent] = []
        self._tail = b""  # last bytes searched, in which a name at the next place may begin
        self._looked = 0  # file offset up to which all places were examined
        self._passed = 0, b""  # file offset at which the last skipped code ends, and its last bytes
        self._found: dict[str, list[int]] = {}  # offsets by name
        self._places = 0
        self._stopped = ""  # why the search ended early
        self._factor = factor
        self.texts = LibraryTexts()  # searched for in the same pass

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Search the next piece of the file; the caller need not keep any of its bytes."""
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
        """Search all extents of a file that was not streamed."""
        for start, end in self._extents:
            for offset in range(start, end, _BLOCK):
                if self._stopped:
                    return
                self._take(source.read(offset, min(_BLOCK, end - offset)), offset, offset, end)

    def conclude(self, known: frozenset[str], wanted: tuple[Extent, ...]) -> OpenedNames:
        """Return the names in the wanted parts of the file, and why some part was not searched."""
        self._finish()
        found = _list_in(self._found, wanted)
        names = tuple(name for name in found if name.lower() not in known)
        done = merge([*self._searched, *self._device_code])
        left = _measure(wanted) - _measure(intersect(wanted, done))
        unread = f"{left} bytes of its read-only data were not searched" if left else ""
        return OpenedNames(
            names=names, unread=self._stopped or unread, too_large=bool(self._stopped)
        )

    def _take(self, piece: bytes, offset: int, begin: int, end: int) -> None:
        """Search a piece, from file offset ``begin`` to ``end``, in the extents only."""
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
        """Search a piece at file offset ``offset`` from file offset ``first`` to ``last``."""
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
        """Extend the searched range to ``last``, or begin a new range at ``first``."""
        if self._searched and self._searched[-1][1] == first:
            self._searched[-1] = (self._searched[-1][0], last)
            return
        self._finish()
        end, passed = self._passed
        if end == first and passed:  # the first string may begin in the last sample of the code
            self._tail = passed
            self._looked = first - len(passed)
        else:
            self._tail = b"\0\0"  # a name may begin at the first byte of an extent
            self._looked = first
        self._searched.append((self._looked, last))

    def _finish(self) -> None:
        """Examine the last places in the bytes searched so far."""
        if self._searched:
            end = self._searched[-1][1]
            self._look(self._tail, end - len(self._tail), end)

    def _look(self, window: bytes, offset: int, stop: int) -> None:
        """Examine the places up to file offset ``stop`` in a window at ``offset``."""
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
            name = read_name(window, place, self._pattern)
            if name:
                self._add(name, place + offset)

    def _add(self, name: str, place: int) -> None:
        if name not in self._found and len(self._found) >= _MOST_NAMES * self._factor:
            self._stopped = f"it has more than {_MOST_NAMES * self._factor} names"
            return
        self._found.setdefault(name, []).append(place)


def _list_in(found: Mapping[str, Sequence[int]], wanted: Iterable[Extent]) -> tuple[str, ...]:
    """Return, sorted, the keys with a place in a wanted part of the file."""
    places = {place for each in found.values() for place in each}
    inside = frozenset(find_within(places, wanted))
    return tuple(sorted(text for text, each in found.items() if not inside.isdisjoint(each)))


def find_texts(
    source: LimitedSource, seen: NameScanner | None, wanted: Iterable[Extent]
) -> tuple[str, ...]:
    """Return the texts of libraries in the wanted parts of a file.

    If the scanner ``seen`` has searched the file while it was streamed, the file is not read again.
    """
    extents = tuple(wanted)
    texts = LibraryTexts() if seen is None else seen.texts
    if seen is None:
        texts.read(source, extents)
    return texts.conclude(extents)


def _measure(extents: Iterable[Extent]) -> int:
    return sum(end - start for start, end in extents)


# The NumPy version that an extension module was compiled for.
#
# ``import_array()`` in NumPy's headers is compiled into every extension module that calls it,
# together with an error message for versions that do not fit: up to NumPy 1.26 "module compiled
# against API version 0x%x", since 2.0 "module was compiled against NumPy C-API version 0x%x (NumPy
# 1.25)", which names the oldest NumPy that the module runs with.

_COMPILED_AGAINST = b"compiled against "
_NUMPY_1 = re.compile(rb"module compiled against API version 0x%x")
_NUMPY_2 = re.compile(
    rb"module was compiled against NumPy C-API version 0x%x \(NumPy (\d{1,3}\.\d{1,3})"
)
_SENTENCE = 128  # most bytes of one message
# Bytes; larger objects are not searched, and no extension module is that large.
_LARGEST_SEARCHED = 256 << 20


class NumpyScanner:
    """Searches for NumPy's messages while a file is streamed."""

    def __init__(self) -> None:
        self._tail = b""
        self.first = False
        self.second: set[bytes] = set()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Search the next piece of the file; the caller need not keep any of its bytes."""
        self._look(self._tail + piece[:_SENTENCE])
        self._look(piece)
        self._tail = (self._tail + piece[-_SENTENCE:])[-_SENTENCE:]
        return ()

    def _look(self, text: bytes) -> None:
        if _COMPILED_AGAINST in text:
            self.first = self.first or _NUMPY_1.search(text) is not None
            self.second.update(_NUMPY_2.findall(text))

    def conclude(self) -> NumpyBuild | None:
        """Return the newest API that the file was compiled for, or None."""
        if self.second:
            oldest = max(self.second, key=lambda text: tuple(map(int, text.split(b"."))))
            return NumpyBuild(api=2, oldest=oldest.decode())
        return NumpyBuild(api=1) if self.first else None


def is_searched(size: int, factor: int) -> bool:
    """Return whether a file of ``size`` bytes is searched."""
    return size <= _LARGEST_SEARCHED * factor


def add_build(
    found: tuple[ReadObject, ...], source: LimitedSource, observations: Observations
) -> tuple[ReadObject, ...]:
    """Return the objects of a file with the NumPy API and the CPU that it was compiled for."""
    numpy, native = observations.of(NumpyScanner), observations.of(NativeScanner)
    if numpy is None or native is None:
        numpy, native = NumpyScanner(), NativeScanner()
        for offset in range(
            0, source.size if is_searched(source.size, source.factor) else 0, _BLOCK
        ):
            piece = source.read(offset, min(_BLOCK, source.size - offset))
            numpy.see(piece)
            native.see(piece)
    build, cpu = numpy.conclude(), native.conclude()
    if build is None and not cpu:
        return found
    return tuple(
        replace(each, numpy=build, native_cpu=cpu) if isinstance(each, ObjectFile) else each
        for each in found
    )


def is_loadable(item: object) -> bool:
    """Return whether Python may load the object."""
    return isinstance(item, ObjectFile) and item.kind is Kind.SHARED
