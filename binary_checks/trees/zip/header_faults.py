"""What installers refuse in the headers of an archive, or read each in its own way.

zipfile (and so pip) and uv's reader differ in what they check: one that unpacks what the other
refuses is no archive to publish.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

DESCRIPTOR: Final = 8
UTF8: Final = 0x800
_REFUSED_FLAGS = {
    0x20: "it is compressed patched data (bit 5 of its flags)",
    0x40: "it asks for strong encryption (bit 6 of its flags)",
    0x2000: "its headers are masked (bit 13 of its flags)",
}
SPECIAL_FLAGS: Final = sum(_REFUSED_FLAGS)
NEWEST_VERSION: Final = 63  # times ten: 6.3 is the last that any reader knows
FULL: Final = 0xFFFFFFFF  # "look into the ZIP64 field"
ZIP64_FAULT: Final = "its ZIP64 field is missing, or has more or fewer numbers than it needs"
_ZIP64 = 1
_UNICODE_PATH = 0x7075  # version, CRC-32 of the name that it stands for, that name in UTF-8
_UNICODE_COMMENT = 0x6375  # the same of the comment
_UNICODE_HEAD = struct.Struct("<BI")
_SIGNATURE = b"PK\7\x08"
LONGEST_DESCRIPTOR: Final = 24  # bytes


def judge_kind(version: int, flags: int, where: str = "") -> Iterator[str]:
    """Say which flags and version no installer reads; ``where`` says in which header."""
    if version & 0xFF > NEWEST_VERSION:
        needed = version & 0xFF
        yield f"it needs version {needed // 10}.{needed % 10} of the format{where}, 6.3 is the last"
    for flag, fault in _REFUSED_FLAGS.items():
        if flags & flag:
            yield fault + where


def judge_extra(extra: bytes, raw_name: bytes, where: str) -> Iterator[str]:
    """Say where the extra field is no list of different fields, or gives another name.

    Fewer than four bytes behind the last field are what zipalign fills up with.
    """
    at = 0
    seen: set[int] = set()
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4 + length
        if at > len(extra):
            yield f"its extra field {kind:#06x} is longer than all of them{where}"
            return
        if kind in seen:
            yield f"it has the extra field {kind:#06x} twice{where}"
        seen.add(kind)
        if kind in {_UNICODE_PATH, _UNICODE_COMMENT}:
            yield from _judge_unicode(kind, extra[at - length : at], raw_name, where)


def _judge_unicode(kind: int, field: bytes, raw_name: bytes, where: str) -> Iterator[str]:
    if len(field) < _UNICODE_HEAD.size:
        yield f"its extra field {kind:#06x} is too short{where}"
        return
    _, crc = _UNICODE_HEAD.unpack_from(field)
    name = field[_UNICODE_HEAD.size :]
    if kind == _UNICODE_PATH and name and crc == zlib.crc32(raw_name) and name != raw_name:
        yield f"its extra field calls it {name.decode(errors='backslashreplace')!r}{where}"


def find_zip64(extra: bytes) -> bytes | None:
    """Return the content of the ZIP64 field (0x0001), None where there is no such field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == _ZIP64:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return None


def widen(extra: bytes, values: tuple[int, ...]) -> tuple[int, ...] | None:
    """Take from the ZIP64 field the values that say so; None where they are not exactly in it.

    zipfile passes over numbers that it does not need, and uv refuses them.
    """
    field = find_zip64(extra)
    full = values.count(FULL)
    if field is None:
        return None if full else values
    if len(field) != 8 * full:
        return None
    wide = iter(struct.unpack(f"<{full}Q", field))
    return tuple(next(wide) if value == FULL else value for value in values)


def measure_descriptor(following: bytes, sums: tuple[int, int, int], *, wide: bool) -> int | None:
    """Return the length of the data descriptor that follows a member's data, None without one.

    ``sums`` are CRC-32, compressed size and size as the central directory has them. The signature
    may be left out. The sizes have 8 bytes each where the local header has a ZIP64 field, which is
    ``wide``, else 4.
    """
    layout = struct.Struct("<IQQ" if wide else "<3I")
    begin = len(_SIGNATURE) if following.startswith(_SIGNATURE) else 0
    if len(following) < begin + layout.size or layout.unpack_from(following, begin) != sums:
        return None
    return begin + layout.size
