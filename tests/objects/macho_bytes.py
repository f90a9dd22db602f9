"""Change samples of Mach-O files."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def commands(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, offset and size of each load command of a thin little-endian 64-bit file."""
    (count,) = struct.unpack_from("<I", content, 16)
    place = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", content, place)
        yield kind, place, size
        place += size


def place_of(content: bytes, kind: int) -> int:
    """Return the offset of the first load command of a type."""
    return next(place for found, place, _ in commands(content) if found == kind)


def patched(content: bytes, place: int, layout: str, *values: int | bytes) -> bytes:
    """Return the content with other little-endian values at an offset."""
    changed = bytearray(content)
    struct.pack_into(f"<{layout}", changed, place, *values)
    return bytes(changed)


def table(content: bytes, kind: int) -> tuple[int, int]:
    """Return offset and size of the table of a linkedit data command."""
    start, size = struct.unpack_from("<II", content, place_of(content, kind) + 8)
    return start, size
