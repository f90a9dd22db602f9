"""Reads the relocation tables of an ELF file as columns: a large library has a million records.

They are read for text relocations and for pointers to device code. No record is judged.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from binary_checks.objects.elf.dynamic import (
    DT_JMPREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELR,
    DT_RELRSZ,
    DT_RELSZ,
    Dynamic,
)
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.segments import PF_W, PT_LOAD, Segment

_NONE: Final = 0  # R_X86_64_NONE and its like, of every architecture: nothing is changed
_MOST: Final = 1 << 28  # bytes of a table; the largest libraries have some twenty million


class RelocationTypes(NamedTuple):
    """The relocations of one architecture."""

    relative: int  # R_*_RELATIVE: the load address plus the addend
    addends: bool = True  # records are Elf_Rela; else Elf_Rel, with the addend in the place itself


RELOCATION_TYPES: Final = {
    "x86_64": RelocationTypes(relative=8),
    "i686": RelocationTypes(relative=8, addends=False),
    "aarch64": RelocationTypes(relative=1027),
    "armv7l": RelocationTypes(relative=23, addends=False),
    "ppc64le": RelocationTypes(relative=22),
    "s390x": RelocationTypes(relative=12),
    "riscv64": RelocationTypes(relative=3),
    "loongarch64": RelocationTypes(relative=3),
}
"""The records of other architectures are not read."""


class Relocations:
    """The columns of one table, in its order."""

    __slots__ = ("addends", "offsets", "types")

    def __init__(self, content: bytes, image: MappedImage, *, addends: bool) -> None:
        order, wide = image.header.byte_order, image.header.bits == 64
        words, step = column("Q" if wide else "I", content, order), 3 if addends else 2
        self.offsets = words[::step]
        self.addends = words[2::step] if addends else None  # as unsigned numbers
        information = words[1::step]
        if wide:
            halves = array("I", information.tobytes())
            low = int(sys.byteorder == "big")
            self.types = halves[low::2]
        else:
            self.types = array("I", [each & 0xFF for each in information])


class RelocationTables(NamedTuple):
    """All relocations of one object."""

    tables: tuple[Relocations, ...]
    packed: array[int]  # DT_RELR: addresses, and bitmaps of what follows them


def column(kind: str, content: bytes, byte_order: str) -> array[int]:
    """The bytes as machine integers of 8 ("Q"), 4 ("I") or 2 ("H") bytes each."""
    numbers = array(kind, content)
    if (byte_order == "<") != (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers


def read_relocations(
    image: MappedImage, dynamic: Dynamic, types: RelocationTypes
) -> RelocationTables:
    """Read the tables that a loader goes through. Raises MalformedError, or TooLarge."""
    tables = tuple(_read_tables(image, dynamic, types))
    wide = image.header.bits == 64
    content = b""
    if DT_RELR in dynamic:
        length = dynamic.value(DT_RELRSZ) // (8 if wide else 4) * (8 if wide else 4)
        content = image.read(dynamic.value(DT_RELR), length, "DT_RELR", _MOST)
    packed = column("Q" if wide else "I", content, image.header.byte_order)
    return RelocationTables(tables, packed)


def _read_tables(
    image: MappedImage, dynamic: Dynamic, types: RelocationTypes
) -> Iterator[Relocations]:
    kind = ("DT_RELA", DT_RELA, DT_RELASZ) if types.addends else ("DT_REL", DT_REL, DT_RELSZ)
    size = image.header.bits // 8 * (3 if types.addends else 2)
    for name, table, length in (kind, ("DT_JMPREL", DT_JMPREL, DT_PLTRELSZ)):
        if table in dynamic:
            whole = dynamic.value(length) // size * size
            content = image.read(dynamic.value(table), whole, name, _MOST)
            yield Relocations(content, image, addends=types.addends)


def count_unwritable(
    image: MappedImage, segments: Iterable[Segment], dynamic: Dynamic, types: RelocationTypes
) -> int:
    """How many relocations change what a PT_LOAD maps without PF_W. Raises as reading them does."""
    loads = [each for each in segments if each.type == PT_LOAD and not each.flags & PF_W]
    fixed = [(each.address, each.address + each.memory_size) for each in loads]
    relocations = read_relocations(image, dynamic, types)
    total = 0
    for start, end in fixed:
        for table in relocations.tables:
            pairs = zip(table.offsets, table.types, strict=True)
            total += sum(kind != _NONE and start <= place < end for place, kind in pairs)
        packed = unpack_between(relocations.packed, image.header.bits // 8, start, end)
        total += sum(1 for _ in packed)
    return total


def unpack_between(words: array[int], word: int, start: int, end: int) -> Iterator[int]:
    """The places between two addresses that the words of DT_RELR relocate."""
    place, reach = 0, (8 * word - 1) * word
    for entry in words:
        if not entry & 1:
            place = entry + word
            if start <= entry < end:
                yield entry
            continue
        if place < end and place + reach > start:
            places = (place + word * bit for bit in range(8 * word - 1) if entry >> bit + 1 & 1)
            yield from (each for each in places if start <= each < end)
        place += reach
