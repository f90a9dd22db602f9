"""Reads what a Mach-O file imports and exports, and keeps it as bytes until somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, Symbols, SymbolTable
from binary_checks.objects.macho.binds import Binds, read_chained_imports, read_opcodes
from binary_checks.objects.macho.commands import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_SYMTAB,
    Command,
    Commands,
)
from binary_checks.objects.macho.encoding import decode_names, join_names
from binary_checks.objects.macho.exports import MachOExports
from binary_checks.objects.macho.header import MachHeader, Slice
from binary_checks.objects.macho.imports import EVERYWHERE, WEAK_LOOKUP, MachOImports
from binary_checks.objects.macho.nlist import read_nlist
from binary_checks.objects.macho.trie import WEAK_DEFINITION

_MAIN_EXECUTABLE = -1
MAIN_EXECUTABLE = "@executable"
"""The library of an import that the program itself must have."""


def read_symbols(
    path: str,
    source: Slice,
    header: MachHeader,
    commands: Commands,
    needed: Sequence[Dependency],
) -> tuple[SymbolTable, SymbolTable]:
    """Imports and exports, of which a trie is not read yet. Raises MalformedError."""
    libraries = {number: item.name for number, item in enumerate(needed, 1)}
    libraries |= {_MAIN_EXECUTABLE: MAIN_EXECUTABLE, EVERYWHERE: "", WEAK_LOOKUP: ""}
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    trie = commands.first(LC_DYLD_EXPORTS_TRIE)
    if fixups is None and trie is None and opcodes is None:
        return _read_symbol_table(source, header, commands, libraries)
    exports = _read_exports(path, source, opcodes, trie, libraries)
    binds = _read_binds(source, header, opcodes, fixups)
    return MachOImports(binds, libraries, exports), exports


def _read_exports(
    path: str,
    source: Slice,
    opcodes: Command | None,
    trie: Command | None,
    libraries: Mapping[int, str],
) -> SymbolTable:
    """The trie has a load command of its own, or lies behind the opcodes."""
    start, size = opcodes.unpack("10I")[8:] if opcodes else (0, 0)
    if trie is not None:
        start, size = trie.unpack("II")
    if not size:
        return NO_SYMBOLS
    return MachOExports(path, source.read(start, size), libraries, source.factor)


def _read_binds(
    source: Slice, header: MachHeader, opcodes: Command | None, fixups: Command | None
) -> list[Binds]:
    found = []
    if opcodes is not None:
        # The weak table is left out: what only it names is there already, or may be missing.
        _, _, eager, eager_size, _, _, lazy, lazy_size, *_ = opcodes.unpack("10I")
        found.append(read_opcodes(source.read(eager, eager_size), lazy=False))
        found.append(read_opcodes(source.read(lazy, lazy_size), lazy=True))
    if fixups is not None:
        table = source.read(*fixups.unpack("II"))
        found.append(read_chained_imports(table, header.byte_order))
    return found


def _read_symbol_table(
    source: Slice, header: MachHeader, commands: Commands, libraries: Mapping[int, str]
) -> tuple[SymbolTable, SymbolTable]:
    """Imports and exports of a file that has nothing for dyld but LC_SYMTAB."""
    command = commands.first(LC_SYMTAB)
    if command is None:
        return NO_SYMBOLS, NO_SYMBOLS
    binds, found = read_nlist(source, header, command)
    names = decode_names(join_names(name for name, _, _ in found))
    weak = (bool(flags & WEAK_DEFINITION) for _, flags, _ in found)
    exports = Symbols(Symbol(name=n, weak=w) for n, w in zip(names, weak, strict=True))
    return MachOImports([binds], libraries, exports), exports
