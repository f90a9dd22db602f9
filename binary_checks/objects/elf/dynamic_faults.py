"""Judges the entries of the dynamic segment: what loaders take for granted without asking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.dynamic import (
    DF_1_NOOPEN,
    DT_FINI_ARRAY,
    DT_FINI_ARRAYSZ,
    DT_FLAGS_1,
    DT_GNU_HASH,
    DT_HASH,
    DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ,
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELENT,
    DT_RELR,
    DT_RELRENT,
    DT_RELRSZ,
    DT_RELSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    Dynamic,
)
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.memory import Memory, holds
from binary_checks.objects.elf.relocations import RelocationTypes

_TABLES: Final = {
    "DT_STRTAB": DT_STRTAB,
    "DT_SYMTAB": DT_SYMTAB,
    "DT_HASH": DT_HASH,
    "DT_GNU_HASH": DT_GNU_HASH,
    "DT_RELA": DT_RELA,
    "DT_REL": DT_REL,
    "DT_RELR": DT_RELR,
    "DT_JMPREL": DT_JMPREL,
    "DT_VERSYM": DT_VERSYM,
    "DT_VERNEED": DT_VERNEED,
    "DT_VERDEF": DT_VERDEF,
    "DT_INIT_ARRAY": DT_INIT_ARRAY,
    "DT_FINI_ARRAY": DT_FINI_ARRAY,
}
"""Entries that hold an address which is read from."""
_SIZES: Final = {
    DT_RELA: DT_RELASZ,
    DT_REL: DT_RELSZ,
    DT_RELR: DT_RELRSZ,
    DT_JMPREL: DT_PLTRELSZ,
    DT_INIT_ARRAY: DT_INIT_ARRAYSZ,
    DT_FINI_ARRAY: DT_FINI_ARRAYSZ,
}
"""The entries that say how long a table is."""
_TOGETHER: Final = (
    {"DT_RELA": DT_RELA, "DT_RELASZ": DT_RELASZ, "DT_RELAENT": DT_RELAENT},
    {"DT_REL": DT_REL, "DT_RELSZ": DT_RELSZ, "DT_RELENT": DT_RELENT},
    {"DT_RELR": DT_RELR, "DT_RELRSZ": DT_RELRSZ, "DT_RELRENT": DT_RELRENT},
    {"DT_JMPREL": DT_JMPREL, "DT_PLTRELSZ": DT_PLTRELSZ, "DT_PLTREL": DT_PLTREL},
    {"DT_VERNEED": DT_VERNEED, "DT_VERNEEDNUM": DT_VERNEEDNUM},
    {"DT_VERDEF": DT_VERDEF, "DT_VERDEFNUM": DT_VERDEFNUM},
    {"DT_INIT_ARRAY": DT_INIT_ARRAY, "DT_INIT_ARRAYSZ": DT_INIT_ARRAYSZ},
    {"DT_FINI_ARRAY": DT_FINI_ARRAY, "DT_FINI_ARRAYSZ": DT_FINI_ARRAYSZ},
)
"""Entries that loaders follow without looking whether the others are there."""


def judge_entries(dynamic: Dynamic, memory: Memory) -> Iterator[str]:
    """Entries that are missing, lead nowhere, or forbid loading."""
    for name, tag in (("DT_STRTAB", DT_STRTAB), ("DT_SYMTAB", DT_SYMTAB)):
        if tag not in dynamic:
            yield f"has no {name}, which loaders read unasked: the process dies"
    for group in _TOGETHER:
        missing = [name for name, tag in group.items() if tag not in dynamic]
        if missing and len(missing) < len(group):
            there = next(name for name in group if name not in missing)
            yield f"has {there} and no {missing[0]}, which loaders read unasked: the process dies"
    if DT_VERSYM not in dynamic and (DT_VERNEED in dynamic or DT_VERDEF in dynamic):
        yield "has tables of versions and no DT_VERSYM, which glibc's loader reads unasked: it dies"
    for name, tag in _TABLES.items():
        address = dynamic.value(tag)
        if tag in dynamic and not holds(memory.readable, address, 1) and _counts(dynamic, tag):
            yield f"has {name} at {address:#x}, where nothing is loaded that may be read"
    if dynamic.value(DT_FLAGS_1) & DF_1_NOOPEN:
        yield "has DF_1_NOOPEN in its DT_FLAGS_1: dlopen refuses it"


def _counts(dynamic: Dynamic, tag: int) -> bool:
    """Whether the table has a size other than zero, where an entry says its size."""
    return tag not in _SIZES or dynamic.value(_SIZES[tag]) > 0


def judge_extents(image: MappedImage, dynamic: Dynamic) -> Iterator[str]:
    """Tables that reach beyond what their segment has in the file."""
    for name, tag in _TABLES.items():
        if tag in dynamic and tag in _SIZES and (size := dynamic.value(_SIZES[tag])):
            try:
                image.demand(dynamic.value(tag), size, name)
            except MalformedError as error:
                yield f"cannot be loaded: {error}"


def judge_sizes(
    dynamic: Dynamic, types: RelocationTypes, word: int, *, for_musl: bool
) -> Iterator[str]:
    """Sizes of relocation records, which glibc asserts and musl does not ask, and of tables."""
    kind = DT_RELA if types.addends else DT_REL
    size = word * (3 if types.addends else 2)
    if DT_PLTREL in dynamic and dynamic.value(DT_PLTREL) != kind:
        yield (
            f"has DT_PLTREL {dynamic.value(DT_PLTREL)}, not {kind} "
            f"({'DT_RELA' if types.addends else 'DT_REL'}), and loaders read other records"
        )
    own = (
        ("DT_RELA", DT_RELA, DT_RELASZ, DT_RELAENT)
        if types.addends
        else ("DT_REL", DT_REL, DT_RELSZ, DT_RELENT)
    )
    for name, table, length, each, wanted in (
        (*own, size),
        ("DT_RELR", DT_RELR, DT_RELRSZ, DT_RELRENT, word),
    ):
        asserted = not for_musl and table in dynamic and each in dynamic
        if asserted and dynamic.value(each) != wanted:
            yield (
                f"has {name}ENT {dynamic.value(each)}, and records have {wanted} bytes: glibc's "
                "loader ends the process"
            )
        if table in dynamic and dynamic.value(length) % wanted:
            yield f"has {name}SZ {dynamic.value(length)}, no multiple of {wanted}"
    if DT_JMPREL in dynamic and dynamic.value(DT_PLTRELSZ) % size:
        yield f"has DT_PLTRELSZ {dynamic.value(DT_PLTRELSZ)}, no multiple of {size}"
