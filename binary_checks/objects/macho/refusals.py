"""Finds why dyld would refuse a Mach-O file, or crash over it, before any of its code runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from binary_checks.model import SymbolTable
from binary_checks.objects.macho.commands import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_DYSYMTAB,
    LC_SYMTAB,
    Commands,
    decode,
)
from binary_checks.objects.macho.dylibs import DYLIBS
from binary_checks.objects.macho.exports import MachOExports
from binary_checks.objects.macho.fixups import find_fixup_faults
from binary_checks.objects.macho.header import MachHeader, Slice
from binary_checks.objects.macho.imports import MachOImports
from binary_checks.objects.macho.layout import find_layout_faults
from binary_checks.objects.macho.opcodes import find_opcode_faults
from binary_checks.objects.macho.segments import Segment

_MOST = 1 << 20


class Parsed(NamedTuple):
    """What has been read of a slice."""

    commands: Commands
    segments: Sequence[Segment]
    imports: SymbolTable
    exports: SymbolTable


def find_refusals(
    source: Slice, header: MachHeader, parsed: Parsed, *, intact: bool
) -> tuple[str, ...]:
    """Why dyld refuses a file that it is to load, from the outside in.

    The tables of one that is proven ``intact`` are those which its linker wrote: they are not
    judged. Raises MalformedError.
    """
    commands, segments, imports, exports = parsed
    found = [*find_layout_faults(header, commands, segments)]
    if not intact:
        if isinstance(exports, MachOExports):
            exports.verify()
        found += _find_table_faults(source, header, commands, segments)
        if isinstance(imports, MachOImports):
            found += _find_lost(source, header, commands, imports.spelled)
    return tuple(found)


def _find_table_faults(
    source: Slice, header: MachHeader, commands: Commands, segments: Sequence[Segment]
) -> Iterator[str]:
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    if opcodes is not None:
        fields = opcodes.unpack("8I")
        pairs = zip(fields[::2], fields[1::2], strict=True)
        tables = [source.read(start, size) for start, size in pairs]
        yield from find_opcode_faults(tables, segments, header.bits, len(commands.find(*DYLIBS)))
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    if fixups is not None:
        table = source.read(*fixups.unpack("II"))
        yield from find_fixup_faults(source, header, table, segments)


def _find_lost(
    source: Slice, header: MachHeader, commands: Commands, bound: Container[bytes]
) -> Iterator[str]:
    """Say which undefined symbol no bind is about, the first of them with their number.

    A linker binds each that has a pointer or a stub of its own, which the indirect symbol table
    lists; a table of binds that ends early loses some. Others may stay undefined and unbound: ld
    keeps some that no code asks for (greenlet 3.2.5, pyobjc 13.0).
    """
    lost = [name for name in _read_undefined(source, header, commands) if name not in bound]
    if lost:
        first, count = decode(lost[0])[:200], len(lost)
        more = f" and {count - 1} more" if count > 1 else ""
        yield f"leaves {first}{more} undefined and has no bind for it: its table was cut"


def _read_undefined(source: Slice, header: MachHeader, commands: Commands) -> list[bytes]:
    """The names in the third part of the symbol table that have a pointer or a stub."""
    table, division = commands.first(LC_SYMTAB), commands.first(LC_DYSYMTAB)
    if table is None or division is None:
        return []
    start, total, names_start, names_size = table.unpack("4I")
    fields = division.unpack("14I")
    (first, count), (indirect, pointers) = fields[4:6], fields[12:14]
    if first + count > total or max(count, pointers) > _MOST:
        return []
    listed = header.struct(f"{pointers}I").unpack(source.read(indirect, 4 * pointers))
    layout: Struct = header.struct("IBBHQ" if header.bits == 64 else "IBBHI")
    rows = source.read(start + first * layout.size, count * layout.size)
    names = source.read(names_start, names_size)
    places = [fields[0] for fields in layout.iter_unpack(rows)]
    asked = sorted({number - first for number in listed if first <= number < first + count})
    return [names[places[number] : names.find(b"\0", places[number])] for number in asked]
