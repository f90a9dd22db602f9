"""Read the imports and exports of a Mach-O file; names are decoded only on demand.

Imports are in bind opcodes or chained fixups, exports in a trie; files without them have only the
symbol table of <mach-o/nlist.h>.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, Symbols, SymbolTable
from binary_checks.objects.macho.bindings import (
    Binds,
    group_binds,
    read_chained_imports,
    read_opcodes,
)
from binary_checks.objects.macho.export_trie import WEAK_DEFINITION, Export, MachOExports
from binary_checks.objects.macho.header import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_SYMTAB,
    MH_TWOLEVEL,
    Command,
    Commands,
    MachHeader,
    Slice,
)
from binary_checks.objects.macho.symbol_names import (
    LONGEST_NAME,
    decode_names,
    holds,
    join_names,
    library_of,
)

# The symbol table (<mach-o/nlist.h>), for files that have neither chained fixups nor bind opcodes.

_MOST_SYMBOLS = 1 << 22  # entries of the symbol table
# N_STAB, N_PEXT, N_TYPE, N_EXT in n_type
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01
_WEAK_REFERENCE, _WEAK_DEFINITION = 0x40, 0x80  # N_WEAK_REF and N_WEAK_DEF in n_desc
_EVERYWHERE = -2


class _Entry(NamedTuple):
    name: bytes
    defined: bool
    description: int  # n_desc


def read_nlist(source: Slice, header: MachHeader, command: Command) -> tuple[Binds, list[Export]]:
    """Read imports and exports from LC_SYMTAB, for files that lack dyld's tables.

    One such file is NULL.so of pyobjc_core 13.0.
    Raises MalformedError, or TooLarge if there are more symbols than the limit.
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
    """Return the ordinal in the high byte of n_desc; 0xFE and 0xFF are -2 and -1."""
    ordinal = description >> 8 & 0xFF
    return ordinal - 0x100 if ordinal >= 0xFE else ordinal


def _read_entries(source: Slice, header: MachHeader, command: Command) -> Iterator[_Entry]:
    """Yield the external symbols."""
    # symtab_command: symoff, nsyms, stroff, strsize
    start, count, names_start, names_size = command.unpack("4I")
    source.require_at_most(count, _MOST_SYMBOLS, "symbols")
    # nlist_64 or nlist: n_strx, n_type, n_sect, n_desc, n_value
    layout = header.struct("IBBHQ" if header.bits == 64 else "IBBHI")
    names = source.read(names_start, names_size)
    most, length = 4 * names_size + (1 << 20), 0  # names may overlap
    for place, kind, _, description, _ in layout.iter_unpack(
        source.read(start, count * layout.size)
    ):
        if kind & (_STAB | _PRIVATE) or not kind & _EXTERNAL:
            continue
        end = names.find(b"\0", place, place + LONGEST_NAME)
        if end < 0 and place + LONGEST_NAME < names_size:
            raise TooLarge(
                f"a symbol's name has more than {LONGEST_NAME} bytes; longer ones are not read"
            )
        if end < 0:
            raise MalformedError("a symbol's name runs beyond the string table", names_start)
        length += end - place
        if length > most:
            reason = f"have more than {most} bytes together; no more are read"
            raise TooLarge(f"the names of its symbols {reason}")
        yield _Entry(names[place:end], bool(kind & _TYPE), description)


# Imports as a symbol table of the model: one bytes object of names for each library.

SELF = 0
EVERYWHERE = -2  # flat lookup, which ``-undefined dynamic_lookup`` makes for symbols of Python
WEAK_LOOKUP = -3  # one definition for the whole process, such as ``operator new``

_Group = tuple[str, bool]  # the library, and whether its symbols may be missing

_FEW = 4
"""For more names than these, all names are decoded."""


class MachOImports(SymbolTable):
    """The imports of one object.

    A symbol of weak lookup that the object defines itself does not count as an import.
    """

    def __init__(
        self, binds: Iterable[Binds], libraries: Mapping[int, str], exports: SymbolTable
    ) -> None:
        names: dict[tuple[int, bool], list[bytes]] = {}
        for (ordinal, weak), group in (item for table in binds for item in table.items()):
            if ordinal != SELF:
                library_of(group[0], ordinal, libraries)
                names.setdefault((ordinal, weak), []).extend(group)
        self._libraries = libraries  # by ordinal
        self._texts = {key: join_names(dict.fromkeys(group)) for key, group in names.items()}
        self._exports = exports

    @cached_property
    def _groups(self) -> Mapping[_Group, frozenset[str]]:
        """The names in each group; a symbol in two tables may be missing only if both allow it."""
        groups: dict[_Group, frozenset[str]] = {}
        for (ordinal, weak), text in self._texts.items():
            names = frozenset(decode_names(text))
            if ordinal == WEAK_LOOKUP:
                names -= self._exports.among(names)
            group = (self._libraries[ordinal], weak)
            groups[group] = groups[group] | names if group in groups else names
        for library, weak in groups:
            if weak:
                groups[library, weak] -= groups.get((library, False), frozenset())
        return {group: names for group, names in groups.items() if names}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once."""
        return frozenset().union(*self._groups.values())

    @cached_property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, ""): Mach-O symbols have no versions."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        for (library, _), names in self._groups.items():
            found[library, ""] = found.get((library, ""), frozenset()) | names
        return found

    @cached_property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """The names that must not be missing, by the library that must define them."""
        return {library: names for (library, weak), names in self._groups.items() if not weak}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name, one for each library."""
        return tuple(
            Symbol(name=name, library=library, weak=weak)
            for (library, weak), names in self._groups.items()
            if name in names
        )

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that are imported; if they are few, do not decode all imports."""
        wanted = frozenset(names)
        return wanted & self.names if len(wanted) > _FEW else frozenset(filter(self._has, wanted))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(name)

    def _has(self, name: str) -> bool:
        asked = {ordinal for (ordinal, _), text in self._texts.items() if holds(text, name)}
        return bool(asked - {WEAK_LOOKUP}) or (bool(asked) and not self._exports.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        for (library, weak), names in self._groups.items():
            for name in sorted(names):
                yield Symbol(name=name, library=library, weak=weak)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __repr__(self) -> str:
        return f"<{sum(text.count(0) - 1 for text in self._texts.values())} imports>"


# Imports and exports of a whole slice.

_MAIN_EXECUTABLE = -1
MAIN_EXECUTABLE = "@executable"
"""The library of an import that the main executable must define."""


def read_symbols(
    path: str,
    source: Slice,
    header: MachHeader,
    commands: Commands,
    needed: Sequence[Dependency],
) -> tuple[SymbolTable, SymbolTable]:
    """Return imports and exports; the export trie is not read yet. Raises MalformedError."""
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
    """Read the trie, which has a load command of its own or is part of LC_DYLD_INFO."""
    # dyld_info_command: offset and size of rebase, bind, weak bind, lazy bind and export tables
    start, size = opcodes.unpack("10I")[8:] if opcodes else (0, 0)
    if trie is not None:
        start, size = trie.unpack("II")
    if not size:
        return NO_SYMBOLS
    return MachOExports(path, source.read(start, size), libraries, source.factor)


def _read_binds(
    source: Slice, header: MachHeader, opcodes: Command | None, fixups: Command | None
) -> list[Binds]:
    """Return the symbols that a loader binds, from LC_DYLD_INFO and chained fixups."""
    found = []
    if opcodes is not None:
        # The weak table is not read: its symbols are also in other tables, or may be missing.
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
    """Return imports and exports of a file that has LC_SYMTAB, but none of dyld's tables."""
    command = commands.first(LC_SYMTAB)
    if command is None:
        return NO_SYMBOLS, NO_SYMBOLS
    binds, found = read_nlist(source, header, command)
    names = decode_names(join_names(name for name, _, _ in found))
    weak = (bool(flags & WEAK_DEFINITION) for _, flags, _ in found)
    exports = Symbols(Symbol(name=n, weak=w) for n, w in zip(names, weak, strict=True))
    return MachOImports([binds], libraries, exports), exports
