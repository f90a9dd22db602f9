"""Find fields of a little-endian 64-bit ELF file, and change them."""

from __future__ import annotations

import struct
from collections.abc import Callable

Field = Callable[[bytes], tuple[int, str]]
"""Called with a file; returns the offset of a field and its ``struct`` format."""

_HEADER = {"type": (16, "H"), "machine": (18, "H"), "version": (20, "I"), "flags": (48, "I")}
_SEGMENT = {
    "type": (0, "I"),
    "flags": (4, "I"),
    "offset": (8, "Q"),
    "vaddr": (16, "Q"),
    "filesz": (32, "Q"),
    "memsz": (40, "Q"),
    "align": (48, "Q"),
}
_LOAD, _DYNAMIC = 1, 2


def header(name: str) -> Field:
    """Return a field of the ELF header."""
    return lambda content: _HEADER[name]


def identification(index: int) -> Field:
    """Return a byte of e_ident."""
    return lambda content: (index, "B")


def segment(kind: int, name: str, number: int = 0) -> Field:
    """Return a field of the ``number``-th program header of a type."""

    def find(content: bytes) -> tuple[int, str]:
        place, layout = _SEGMENT[name]
        return _segments(content, kind)[number] + place, layout

    return find


def _segments(content: bytes, kind: int) -> list[int]:
    (start,), (count,) = (
        struct.unpack_from("<Q", content, 32),
        struct.unpack_from("<H", content, 56),
    )
    places = range(start, start + 56 * count, 56)
    return [at for at in places if struct.unpack_from("<I", content, at) == (kind,)]


def value(tag: int) -> Field:
    """Return the value of the dynamic entry with this tag."""
    return lambda content: (_entry(content, tag) + 8, "Q")


def tag(number: int) -> Field:
    """Return the tag of the dynamic entry with this tag."""
    return lambda content: (_entry(content, number), "Q")


def _entry(content: bytes, number: int) -> int:
    start, _, _, size = struct.unpack_from("<QQQQ", content, _segments(content, _DYNAMIC)[0] + 8)
    rows = range(start, start + size, 16)
    return next(at for at in rows if struct.unpack_from("<Q", content, at) == (number,))


def within(number: int, place: int, layout: str) -> Field:
    """Return a field at an offset in the table that a dynamic entry points to."""

    def find(content: bytes) -> tuple[int, str]:
        (address,) = struct.unpack_from("<Q", content, _entry(content, number) + 8)
        return offset_of(content, address) + place, layout

    return find


def offset_of(content: bytes, address: int) -> int:
    """Return the file offset of an address."""
    for at in _segments(content, _LOAD):
        offset, start, _, size = struct.unpack_from("<QQQQ", content, at + 8)
        if start <= address < start + size:
            return int(offset + address - start)
    raise AssertionError(f"{address:#x} is not loaded")


def get(content: bytes, field: Field) -> int:
    """Return the value of a field."""
    place, layout = field(content)
    (found,) = struct.unpack_from(f"<{layout}", content, place)
    return int(found)


def put(content: bytes, field: Field, new: int) -> bytes:
    """Return the file with another value in a field."""
    place, layout = field(content)
    packed = struct.pack(f"<{layout}", new)
    return content[:place] + packed + content[place + len(packed) :]
