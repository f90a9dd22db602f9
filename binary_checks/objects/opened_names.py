"""Finds the names of shared libraries in read-only data, which dlopen or LoadLibrary may be given.

A name counts where a whole string of C is one: what a program puts together from pieces
(``lib%s.so``), paths, and strings without an end, as Go and Rust have them, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from binary_checks.model import OpenedNames
from binary_checks.model.source import ByteSource

_BLOCK = 1 << 20  # bytes searched at a time
_LONGEST = 255  # bytes of a file's name, as systems allow
_KEPT = 4 * _LONGEST  # of a block, for what goes on in the next one
_MOST_SEARCHED = 96 << 20  # bytes of one object; libllvmlite.so has 60 MiB of them
_MOST_PLACES = 1 << 16  # that look like the end of a name; real objects have some hundreds
_MOST_NAMES = 1 << 12

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
_PRINTABLE = bytes(range(0x20, 0x7F))

Extent = tuple[int, int]


class Spelling(NamedTuple):
    """How the names of shared libraries are written."""

    ending: bytes  # that every name has, to be searched for
    pattern: re.Pattern[bytes]  # of the whole name
    width: int = 1  # bytes of a character
    prefixed: bool = False  # each begins with "lib": a number before one is no letter of it


ELF_NAMES: Final = (
    Spelling(b".so", re.compile(rb"lib[A-Za-z0-9_+.\-]+?\.so(?:\.[0-9]+)*"), prefixed=True),
)
MACHO_NAMES: Final = (
    Spelling(b".dylib", re.compile(rb"lib[A-Za-z0-9_+.\-]+?\.dylib"), prefixed=True),
)
_DLL = re.compile(rb"[A-Za-z][A-Za-z0-9_+.\-]+?\.dll", re.IGNORECASE)
PE_NAMES: Final = (
    Spelling(b".dll", _DLL),
    Spelling(b".DLL", _DLL),
    Spelling(b".\0d\0l\0l", _DLL, 2),
)


def find_opened(
    source: ByteSource,
    extents: Iterable[Extent],
    spellings: Sequence[Spelling],
    known: Iterable[str],
    wanted: Iterable[Extent],
) -> OpenedNames:
    """Search those parts of a file, of all that are wanted; ``known`` names are left out.

    Whatever their case.
    """
    search = _Search(spellings, frozenset(name.lower() for name in known))
    parts = tuple(extents)
    for start, end in parts:
        search.go_through(source, start, end)
    left = _measure(wanted) - _measure(parts)
    if left and not search.unread:
        search.unread = f"{left} bytes of its read-only data were not searched"
    return OpenedNames(names=tuple(sorted(search.names)), unread=search.unread)


def _measure(extents: Iterable[Extent]) -> int:
    return sum(end - start for start, end in extents)


class _Search:
    """What was found so far, and how much more may be."""

    def __init__(self, spellings: Sequence[Spelling], known: frozenset[str]) -> None:
        self.names: set[str] = set()
        self.unread = ""
        self._spellings = spellings
        self._known = known
        self._bytes = _MOST_SEARCHED
        self._places = _MOST_PLACES

    def go_through(self, source: ByteSource, start: int, end: int) -> None:
        """Search a part of the file, block by block."""
        tail = b"\0\0"  # a name may begin where the part does
        for offset in range(start, end, _BLOCK):
            if self._bytes <= 0:
                self.unread = f"only the first {_MOST_SEARCHED} bytes were searched"
            if self.unread:
                return
            block = source.read(offset, min(_BLOCK, end - offset))
            self._bytes -= len(block)
            window = tail + block
            for spelling in self._spellings:
                self._take(window, spelling)
            tail = window[-_KEPT:]

    def _take(self, window: bytes, spelling: Spelling) -> None:
        for name in self._find(window, spelling):
            if name.lower() in self._known:
                continue
            if len(self.names) >= _MOST_NAMES and name not in self.names:
                self.unread = f"it has more than {_MOST_NAMES} names"
                return
            self.names.add(name)

    def _find(self, window: bytes, spelling: Spelling) -> Iterator[str]:
        place = window.find(spelling.ending)
        while place >= 0:
            self._places -= 1
            if self._places < 0:
                self.unread = f"it has more than {_MOST_PLACES} places that look like names"
                return
            if spelling.width == 1:
                text = _string_at(window, place, prefixed=spelling.prefixed)
            else:
                text = _wide_at(window, place)
            if spelling.pattern.fullmatch(text):
                yield text.decode("ascii")
            place = window.find(spelling.ending, place + 1)


def _string_at(window: bytes, place: int, *, prefixed: bool) -> bytes:
    """The zero-terminated string around a place; b"" where it is longer than a name, or cut off.

    Before it stands a zero; before one that is known by its prefix, anything but text.
    """
    before = window[max(place - _LONGEST, 0) : place]
    start = place - _measure_end(before, _LETTERS)
    if not start or start == place - _LONGEST or window[start - 1] in _PRINTABLE:
        return b""
    if window[start - 1] and not prefixed:
        return b""
    end = window.find(b"\0", place, start + _LONGEST + 1)
    return window[start:end] if end >= 0 else b""


def _wide_at(window: bytes, place: int) -> bytes:
    """The string in UTF-16 that ends with the characters at a place, in ASCII; b"" for others."""
    end = place + 8
    before = window[place - 2 * min(_LONGEST, place // 2) : place]
    length = min(_measure_end(before[::2], _LETTERS), _measure_end(before[1::2], b"\0"))
    start = place - 2 * length
    if window[end - 1 : end + 2] != b"\0\0\0" or start < 2 or length == _LONGEST:
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
