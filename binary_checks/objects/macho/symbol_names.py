"""The encoding of names and numbers in the symbol tables of Mach-O files.

Numbers in the export trie and in bind opcodes are unsigned LEB128. Compilers put an underscore
before each name of C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.header import (
    decode,
)

LONGEST_NAME: Final = 64 * 1024
"""Limit on the bytes of a name."""
_MOST_BITS = 63  # shift of the tenth group of 7 bits, the last one in a number of 64 bits


def read_uleb(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it.

    Raises MalformedError for a number of more than 64 bits, IndexError at the end of the data.
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


def join_names(names: Iterable[bytes]) -> bytes:
    """Join many names into one bytes object, with a NUL before and after each."""
    return b"\0".join((b"", *names, b""))


def decode_names(text: bytes) -> list[str]:
    """Return the names in the result of `join_names`, without the underscore of C."""
    return decode(text.replace(b"\0_", b"\0")[1:-1]).split("\0") if len(text) > 1 else []


def holds(text: bytes, name: str) -> bool:
    """Return whether a name is in the result of `join_names`."""
    return any(b"\0%b\0" % each in text for each in encode_name(name))


def encode_name(name: str) -> tuple[bytes, ...]:
    """Return the symbols that a name may have; assembler may omit the underscore of C."""
    plain = name.encode("utf-8", "backslashreplace")
    return (b"_" + plain,) if plain.startswith(b"_") else (b"_" + plain, plain)


@lru_cache(maxsize=4)  # successive libraries are asked for the same names
def encode_names(names: frozenset[str], *, plain: bool) -> list[bytes]:
    """Return the symbols that many names may have, sorted.

    Forms without the underscore of C are included only if ``plain`` is true.
    """
    spelled = ("_" + "\0_".join(names)).encode("utf-8", "backslashreplace").split(b"\0")
    if plain:
        spelled += [each[1:] for each in spelled if not each.startswith(b"__")]
    return sorted(spelled)


def library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    """Return the library with a two-level ordinal. Raises MalformedError if there is none."""
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(
            f"{decode(name)} is bound to dylib {ordinal}, which does not exist"
        ) from None
