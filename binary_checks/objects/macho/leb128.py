"""Reads unsigned LEB128 numbers, in which Mach-O's export trie and bind opcodes count."""

from __future__ import annotations

from binary_checks.errors import MalformedError

_MOST_BITS = 63


def read_uleb(data: bytes, place: int) -> tuple[int, int]:
    """The number at that place, and where the next byte lies.

    Raises MalformedError for one of more than 64 bits, IndexError beyond the end of the data.
    """
    byte = data[place]
    if byte < 0x80:
        return byte, place + 1
    value, shift = byte & 0x7F, 7
    while True:
        place += 1
        byte = data[place]
        if byte < 0x80:
            return value | byte << shift, place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise MalformedError("a number of more than 64 bits", place)
