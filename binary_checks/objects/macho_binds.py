"""Reads which symbols a Mach-O file binds: bind opcodes, or the imports of chained fixups."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.leb128 import read_uleb

_WEAK_IMPORT = 1


class Bind(NamedTuple):
    """A symbol that a loader looks up, and where."""

    name: bytes
    ordinal: int  # of a dylib from 1; 0 self, -1 main executable, -2 everywhere, -3 weak lookup
    weak: bool  # may be missing


_DONE = 0x00
_SET_ORDINAL, _SET_ORDINAL_ULEB, _SET_SPECIAL_ORDINAL = 0x10, 0x20, 0x30
_SET_SYMBOL = 0x40
_NUMBERS = {0x50: 0, 0x60: 1, 0x70: 1, 0x80: 1, 0x90: 0, 0xA0: 1, 0xB0: 0, 0xC0: 2}
"""How many numbers follow each of the other operations."""
_BINDING = (0x90, 0xA0, 0xB0, 0xC0)
_THREADED = 0xD0  # arm64e's; those that it orders are bound by 0x90 too


def read_opcodes(opcodes: bytes, *, lazy: bool) -> Iterator[Bind]:
    """What a table of LC_DYLD_INFO binds. Raises MalformedError.

    A lazy table has an end behind every symbol, the others have one behind all.
    """
    name, ordinal, weak, fresh = b"", 0, False, False
    place, end = 0, len(opcodes)
    try:
        while place < end:
            byte = opcodes[place]
            operation = byte & 0xF0
            place += 1
            if operation == _SET_SYMBOL:
                stop = opcodes.index(b"\0", place)
                name, weak, fresh = opcodes[place:stop], bool(byte & _WEAK_IMPORT), True
                place = stop + 1
            elif operation in (_SET_ORDINAL, _SET_ORDINAL_ULEB, _SET_SPECIAL_ORDINAL):
                ordinal, place = _read_ordinal(opcodes, place)
                fresh = True
            elif operation == _DONE and not lazy:
                return
            else:
                if fresh and operation in _BINDING:
                    fresh = False
                    yield Bind(name, ordinal, weak)
                for _ in range(_count_numbers(byte, place)):
                    _, place = read_uleb(opcodes, place)
    except (IndexError, ValueError):
        raise MalformedError("the bind opcodes run beyond their end") from None


def _read_ordinal(opcodes: bytes, place: int) -> tuple[int, int]:
    """The ordinal that the operation before the place sets, and where the next one lies."""
    operation, immediate = opcodes[place - 1] & 0xF0, opcodes[place - 1] & 0xF
    if operation == _SET_ORDINAL_ULEB:
        return read_uleb(opcodes, place)
    if operation == _SET_SPECIAL_ORDINAL and immediate:
        return immediate - 16, place  # a negative number of four bits
    return immediate, place


def _count_numbers(byte: int, place: int) -> int:
    if byte == _DONE:
        return 0
    if byte & 0xF0 == _THREADED and byte & 0xF < 2:
        return 1 - (byte & 0xF)
    if byte & 0xF0 not in _NUMBERS:
        raise MalformedError(f"bind opcode {byte:#04x}", place - 1)
    return _NUMBERS[byte & 0xF0]


_IMPORTS = {1: ("I", 8, 9), 2: ("Ii", 8, 9), 3: ("QQ", 16, 32)}
"""By format: layout of an import, bits of its ordinal, bits before the place of its name."""


def read_chained_imports(table: bytes, byte_order: str) -> Iterator[Bind]:
    """Every import of LC_DYLD_CHAINED_FIXUPS: a loader looks up all of them.

    Raises MalformedError.
    """
    head = Struct(f"{byte_order}7I")
    if len(table) < head.size:
        raise MalformedError("the chained fixups end within their header")
    version, starts, imports, names, count, form, packing = head.unpack_from(table)
    if version != 0 or form not in _IMPORTS or packing != 0:
        claim = f"version {version}, imports of format {form}, names of format {packing}"
        raise MalformedError(f"chained fixups of {claim}")
    layout, bits, before = _IMPORTS[form]
    entry = Struct(byte_order + layout)
    end = imports + count * entry.size
    if max(starts + 4, names, end) > len(table):
        raise MalformedError(f"the chained fixups have {len(table):#x} bytes, too few")
    budget = 4 * len(table)  # names may overlap; those of a real file do not
    for packed, *_ in entry.iter_unpack(table[imports:end]):
        start = names + (packed >> before)
        stop = table.find(b"\0", start)
        budget -= stop - start
        if stop < 0 or budget < 0:
            raise MalformedError("a name of the chained fixups runs beyond their end")
        yield Bind(table[start:stop], _signed(packed, bits), bool(packed >> bits & 1))


def _signed(packed: int, bits: int) -> int:
    """The ordinal in the lowest bits; the last 15 are negative."""
    ordinal = packed & (1 << bits) - 1
    return ordinal - (1 << bits) if ordinal > (1 << bits) - 16 else ordinal
