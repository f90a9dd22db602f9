"""Demands that everything a Mach-O file refers to lies inside of its slice.

Without this a truncated library reads as one that needs nothing and defines nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.commands import (
    LC_ATOM_INFO,
    LC_CODE_SIGNATURE,
    LC_DATA_IN_CODE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_DYLIB_CODE_SIGN_DRS,
    LC_DYSYMTAB,
    LC_FUNCTION_STARTS,
    LC_FUNCTION_VARIANT_FIXUPS,
    LC_FUNCTION_VARIANTS,
    LC_LINKER_OPTIMIZATION_HINT,
    LC_SEGMENT,
    LC_SEGMENT_64,
    LC_SEGMENT_SPLIT_INFO,
    LC_SYMTAB,
    Commands,
)

LINKEDIT_DATA = (
    LC_CODE_SIGNATURE,
    LC_SEGMENT_SPLIT_INFO,
    LC_FUNCTION_STARTS,
    LC_DATA_IN_CODE,
    LC_DYLIB_CODE_SIGN_DRS,
    LC_LINKER_OPTIMIZATION_HINT,
    LC_ATOM_INFO,
    LC_FUNCTION_VARIANTS,
    LC_FUNCTION_VARIANT_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_CHAINED_FIXUPS,
)
"""The commands that are nothing but the place and the size of a table."""

_DYSYMTAB_SIZES = (8, 52, 4, 4, 8, 8)
"""Bytes of an entry: contents, modules (56 with 64 bits), references, indirect, relocations."""

_Extent = tuple[str, int, int]  # what, start, length


def verify_extent(commands: Commands, bits: int, size: int) -> None:
    """Raise MalformedError for a segment or a table that the slice does not hold in full."""
    for what, start, length in _list_extents(commands, bits):
        if length and start + length > size:
            raise MalformedError(
                f"{what} ends at byte {start + length:#x}, the file has {size:#x} bytes", size
            )


def _list_extents(commands: Commands, bits: int) -> Iterator[_Extent]:
    for command in commands.find(LC_SEGMENT, LC_SEGMENT_64):
        words = "4I" if command.type == LC_SEGMENT else "4Q"
        name, _, memory, start, length = command.unpack(f"16s{words}")
        what = f"segment {name.rstrip(bytes(1)).decode('ascii', 'backslashreplace')}"
        if length > memory:
            raise MalformedError(f"{what} is larger in the file than in memory", command.offset)
        yield what, start, length
    yield from list_linkedit(commands, bits)


def list_linkedit(commands: Commands, bits: int) -> Iterator[_Extent]:
    """What and where everything is that linkers put into __LINKEDIT."""
    for command in commands.find(*LINKEDIT_DATA):
        yield f"the table of load command {command.type:#x}", *command.unpack("II")
    for command in commands.find(LC_DYLD_INFO, LC_DYLD_INFO_ONLY):
        fields = command.unpack("10I")
        for number in range(0, 10, 2):
            yield "a table of LC_DYLD_INFO", fields[number], fields[number + 1]
    yield from _list_symbol_tables(commands, bits)


def _list_symbol_tables(commands: Commands, bits: int) -> Iterator[_Extent]:
    for command in commands.find(LC_SYMTAB):
        symbols, count, strings, length = command.unpack("4I")
        yield "the symbol table", symbols, count * (16 if bits == 64 else 12)
        yield "the string table", strings, length
    for command in commands.find(LC_DYSYMTAB):
        fields = command.unpack("18I")[6:]
        for number, entry in enumerate(_DYSYMTAB_SIZES):
            size = 56 if number == 1 and bits == 64 else entry
            yield "a table of LC_DYSYMTAB", fields[2 * number], fields[2 * number + 1] * size
