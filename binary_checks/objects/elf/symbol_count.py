"""Finds out how many dynamic symbols an ELF file has, which no entry of it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.dynamic import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    DT_SYMTAB,
    Dynamic,
)
from binary_checks.objects.elf.hash_tables import WIDE_SYSV
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.relocations import column
from binary_checks.objects.elf.sections import SHT_DYNSYM, Section

_CHAIN_BLOCK = 4096
_MOST_BUCKETS: Final = 1 << 22  # the largest libraries have some hundred thousand symbols


def count_symbols(
    image: MappedImage, dynamic: Dynamic, sections: Iterable[Section], entry_size: int
) -> int:
    """How many entries DT_SYMTAB has.

    Raises MalformedError, or TooLarge for more buckets than are read.
    """
    count = _from_gnu_hash(image, dynamic) or _from_sysv_hash(image, dynamic)
    if count:
        return count
    return max(_from_sections(dynamic, sections, entry_size), _from_relocations(image, dynamic))


def _from_gnu_hash(image: MappedImage, dynamic: Dynamic) -> int:
    """The end of the last chain of DT_GNU_HASH; 0 where there is none.

    Hashed symbols come last in the table, so that it ends where the last chain does. A table
    without chains tells nothing: GNU ld writes a symbol offset of 1 whatever was imported.
    """
    if DT_GNU_HASH not in dynamic:
        return 0
    address, word = dynamic.value(DT_GNU_HASH), image.header.struct("I").size
    head = image.header.struct("IIII")
    bucket_count, first, bloom_size, _ = image.unpack(head, address, "DT_GNU_HASH")
    buckets = address + head.size + bloom_size * image.header.bits // 8
    chains = buckets + bucket_count * word
    table = image.read(buckets, bucket_count * word, "DT_GNU_HASH", _MOST_BUCKETS * word)
    last = max(column("I", table, image.header.byte_order), default=0)
    if last == 0:
        return 0
    if last < first:
        raise MalformedError(f"DT_GNU_HASH has a bucket at symbol {last}, its first is {first}")
    return last + 1 + _find_chain_end(image, chains + (last - first) * word)


def _find_chain_end(image: MappedImage, address: int) -> int:
    """How many words lie before the first odd one, which ends a chain."""
    low = 0 if image.header.byte_order == "<" else 3
    passed = 0
    while True:
        _, available = image.locate(address, "a chain of DT_GNU_HASH")
        block = image.read(
            address, min(available - available % 4, _CHAIN_BLOCK), "a chain of DT_GNU_HASH"
        )
        if not block:
            raise MalformedError("a chain of DT_GNU_HASH has no end")
        ends = (index for index, byte in enumerate(block[low::4]) if byte & 1)
        found = next(ends, -1)
        if found >= 0:
            return passed + found
        passed += len(block) // 4
        address += len(block)


def _from_sysv_hash(image: MappedImage, dynamic: Dynamic) -> int:
    """DT_HASH's nchain; 0 where there is no DT_HASH."""
    if DT_HASH not in dynamic:
        return 0
    wide = image.header.bits == 64 and image.header.machine in WIDE_SYSV
    layout = image.header.struct("QQ" if wide else "II")
    buckets, chains = image.unpack(layout, dynamic.value(DT_HASH), "DT_HASH")
    _, available = image.locate(dynamic.value(DT_HASH), "DT_HASH")
    length = layout.size + (buckets + chains) * layout.size // 2
    if length > available:
        raise MalformedError(f"DT_HASH has {length:#x} bytes, its segment only {available:#x} more")
    return int(chains)


def _from_sections(dynamic: Dynamic, sections: Iterable[Section], entry_size: int) -> int:
    address = dynamic.value(DT_SYMTAB)
    sizes = (s.size for s in sections if s.type == SHT_DYNSYM and s.address == address)
    return next(sizes, 0) // entry_size


def _from_relocations(image: MappedImage, dynamic: Dynamic) -> int:
    """One more than the highest symbol that a relocation names: a loader sees no others."""
    rela, rel = (24, 16) if image.header.bits == 64 else (12, 8)
    plt = rela if dynamic.value(DT_PLTREL) == DT_RELA else rel
    tables = (
        (dynamic.value(DT_RELA), dynamic.value(DT_RELASZ), rela),
        (dynamic.value(DT_REL), dynamic.value(DT_RELSZ), rel),
        (dynamic.value(DT_JMPREL), dynamic.value(DT_PLTRELSZ), plt),
    )
    highest = (_highest_symbol(image, *table) for table in tables if table[1])
    return max(highest, default=-1) + 1


def _highest_symbol(image: MappedImage, address: int, size: int, entry_size: int) -> int:
    word, shift = ("Q", 32) if image.header.bits == 64 else ("I", 8)
    padding = entry_size - 2 * image.header.bits // 8
    layout = image.header.struct(f"{word}{word}{padding}x")
    table = image.read(address, size - size % entry_size, "a relocation table")
    return max((info >> shift for _, info in layout.iter_unpack(table)), default=-1)
