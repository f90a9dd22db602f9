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
_UNICODE_PATH = 0x7075  # version, CRC-32 of the name that it stands for, that name in UTF-8
_UNICODE_HEAD = struct.Struct("<BI")
_DESCRIPTORS = {12: "<3I", 16: "<4x3I", 20: "<IQQ", 24: "<4xIQQ"}
_SIGNATURE = b"PK\7\x08"


def judge_kind(version: int, flags: int, where: str = "") -> Iterator[str]:
    """Say which flags and version no installer reads; ``where`` says in which header."""
    if version & 0xFF > NEWEST_VERSION:
        needed = version & 0xFF
        yield f"it needs version {needed // 10}.{needed % 10} of the format{where}, 6.3 is the last"
    for flag, fault in _REFUSED_FLAGS.items():
        if flags & flag:
            yield fault + where


def judge_extra(extra: bytes, raw_name: bytes, where: str) -> Iterator[str]:
    """Say where the extra field is no list of fields, or gives another name.

    Fewer than four bytes behind the last field are what zipalign fills up with.
    """
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4 + length
        if at > len(extra):
            yield f"its extra field {kind:#06x} is longer than all of them{where}"
            return
        if kind == _UNICODE_PATH and length > _UNICODE_HEAD.size:
            _, crc = _UNICODE_HEAD.unpack_from(extra, at - length)
            name = extra[at - length + _UNICODE_HEAD.size : at]
            if crc == zlib.crc32(raw_name) and name != raw_name:
                yield f"its extra field calls it {name.decode(errors='backslashreplace')!r}{where}"


def measure_descriptor(between: bytes, sums: tuple[int, int, int]) -> int | None:
    """How long the data descriptor is with which these bytes begin, None where it is none.

    ``sums`` are CRC-32, compressed size and size as the central directory has them. The signature
    may be left out, and the sizes have 4 or 8 bytes each.
    """
    for length, layout in _DESCRIPTORS.items():
        signed = length % 8 == 0
        if length > len(between) or signed != between.startswith(_SIGNATURE):
            continue
        if struct.unpack_from(layout, between) == sums:
            return length
    return None
