"""Changes to Mach-O samples, for tests."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def commands(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Type, place and size of each load command of a thin 64-bit little-endian file."""
    (count,) = struct.unpack_from("<I", content, 16)
    place = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", content, place)
        yield kind, place, size
        place += size


def place_of(content: bytes, kind: int) -> int:
    """Where the first load command of that type begins."""
    return next(place for found, place, _ in commands(content) if found == kind)


def patched(content: bytes, place: int, layout: str, *values: int | bytes) -> bytes:
    """The content with other little-endian values at that place."""
    changed = bytearray(content)
    struct.pack_into(f"<{layout}", changed, place, *values)
    return bytes(changed)


def table(content: bytes, kind: int) -> tuple[int, int]:
    """Place and size of the table that a command of linkedit data names."""
    start, size = struct.unpack_from("<II", content, place_of(content, kind) + 8)
    return start, size
