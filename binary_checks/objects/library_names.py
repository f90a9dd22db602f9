"""How the names of shared libraries are written, and whether one stands at a place of some data.

A name counts where a whole string of C is one: what a program puts together from pieces
(``lib%s.so``), paths, and strings without an end, as Go and Rust have them, are left out.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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
