"""Reads the symbol table by which files were linked that have neither fixups nor bind opcodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.macho.binds import Binds, group_binds
from binary_checks.objects.macho.commands import Command
from binary_checks.objects.macho.header import MH_TWOLEVEL, MachHeader, Slice
from binary_checks.objects.macho.trie import WEAK_DEFINITION, Export

_MOST = 1 << 22
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01
_WEAK_REFERENCE, _WEAK_DEFINITION = 0x40, 0x80  # of n_desc
_LONGEST = 64 * 1024
_EVERYWHERE = -2


class _Entry(NamedTuple):
    name: bytes
    defined: bool
    description: int  # n_desc


def read_nlist(source: Slice, header: MachHeader, command: Command) -> tuple[Binds, list[Export]]:
    """Imports and exports by LC_SYMTAB alone.

    Raises MalformedError, or TooLarge for more than are read.
    """
    entries = list(_read_entries(source, header, command))
    two_level = header.flags & MH_TWOLEVEL
    binds = group_binds(
        (
            entry.name,
            _ordinal(entry.description) if two_level else _EVERYWHERE,
            bool(entry.description & _WEAK_REFERENCE),
        )
        for entry in entries
        if not entry.defined
    )
    exports = [
        (entry.name, WEAK_DEFINITION * bool(entry.description & _WEAK_DEFINITION), 0)
        for entry in entries
        if entry.defined
    ]
    return binds, exports


def _ordinal(description: int) -> int:
    """The ordinal in the upper byte of n_desc, whose last two are -2 and -1."""
    ordinal = description >> 8 & 0xFF
    return ordinal - 0x100 if ordinal >= 0xFE else ordinal


def _read_entries(source: Slice, header: MachHeader, command: Command) -> Iterator[_Entry]:
    """The external symbols."""
    start, count, names_start, names_size = command.unpack("4I")
    source.refuse_more(count, _MOST, "symbols")
    layout = header.struct("IBBHQ" if header.bits == 64 else "IBBHI")
    names = source.read(names_start, names_size)
    most, length = 4 * names_size + (1 << 20), 0  # names may overlap
    for place, kind, _, description, _ in layout.iter_unpack(
        source.read(start, count * layout.size)
    ):
        if kind & (_STAB | _PRIVATE) or not kind & _EXTERNAL:
            continue
        end = names.find(b"\0", place, place + _LONGEST)
        if end < 0 and place + _LONGEST < names_size:
            raise TooLarge(f"a symbol's name has more than {_LONGEST} bytes, none so long is read")
        if end < 0:
            raise MalformedError("a symbol's name runs beyond the string table", names_start)
        length += end - place
        if length > most:
            reason = f"have more than {most} bytes together, no more are read"
            raise TooLarge(f"the names of its symbols {reason}")
        yield _Entry(names[place:end], bool(kind & _TYPE), description)
