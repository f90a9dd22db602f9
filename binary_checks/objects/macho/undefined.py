"""Which symbols a Mach-O file calls through its pointers and binds nowhere.

A linker binds each undefined symbol that has a pointer or a stub of its own, which the indirect
symbol table lists; a table of binds that ends early loses some. Others may stay undefined and
unbound: ld keeps some that no code asks for (greenlet 3.2.5, pyobjc 13.0).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from struct import Struct

from binary_checks.objects.macho.commands import LC_DYSYMTAB, LC_SYMTAB, Commands, decode
from binary_checks.objects.macho.header import MachHeader, Slice

_MOST = 1 << 20


def find_lost(
    source: Slice, header: MachHeader, commands: Commands, bound: Container[bytes]
) -> Iterator[str]:
    """Say which undefined symbol no bind is about, the first of them with their number."""
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
