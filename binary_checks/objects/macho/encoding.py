"""How the tables of a Mach-O file encode numbers and spell the names of symbols.

Numbers of the export trie and of bind opcodes are unsigned LEB128; before each name of C stands an
underscore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.commands import decode

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


def join_names(names: Iterable[bytes]) -> bytes:
    """Keep many names as one piece of bytes, with a zero, which none has, around each."""
    return b"\0".join((b"", *names, b""))


def decode_names(text: bytes) -> list[str]:
    """The names in such a piece."""
    return decode(text.replace(b"\0_", b"\0")[1:-1]).split("\0") if len(text) > 1 else []


def holds(text: bytes, name: str) -> bool:
    """Whether a name is in such a piece."""
    return any(b"\0%b\0" % each in text for each in spell(name))


def spell(name: str) -> tuple[bytes, ...]:
    """How Mach-O may spell a name of C: assembler can do without the underscore."""
    plain = name.encode("utf-8", "backslashreplace")
    return (b"_" + plain,) if plain.startswith(b"_") else (b"_" + plain, plain)


@lru_cache(maxsize=4)  # one library after the other is asked for the same
def spell_all(names: frozenset[str], *, plain: bool) -> list[bytes]:
    """How Mach-O may spell many names, sorted; only if ``plain``, also without the underscore."""
    spelled = ("_" + "\0_".join(names)).encode("utf-8", "backslashreplace").split(b"\0")
    if plain:
        spelled += [each[1:] for each in spelled if not each.startswith(b"__")]
    return sorted(spelled)


def library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    """Whom a symbol is asked of. Raises MalformedError."""
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(f"{decode(name)} is asked of dylib {ordinal}, there is none") from None
