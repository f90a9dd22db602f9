"""Reads what a Mach-O file imports and exports, and keeps it as bytes until somebody asks.

Names are those of C: without the underscore that Mach-O puts before each of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from binary_checks.errors import MalformedError
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, SymbolTable
from binary_checks.objects.macho_binds import Bind, read_chained_imports, read_opcodes
from binary_checks.objects.macho_commands import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_SYMTAB,
    Commands,
    decode,
)
from binary_checks.objects.macho_header import MachHeader, Slice
from binary_checks.objects.macho_nlist import read_nlist
from binary_checks.objects.macho_trie import WEAK_DEFINITION, Export, walk_trie

_SELF = 0
_MAIN_EXECUTABLE = -1
_EVERYWHERE = -2  # whoever comes first: undefined with -undefined dynamic_lookup, as Py* are
_WEAK_LOOKUP = -3  # all share one definition, such as that of ``operator new``
MAIN_EXECUTABLE = "@executable"
"""The library of an import that the program itself must have."""


_Row = tuple[bytes, str, bool]  # name, library, weak


class MachOSymbolTable(SymbolTable):
    """One side of an object's symbols: what it imports or what it exports."""

    def __init__(self, rows: Sequence[_Row], what: str) -> None:
        self._what = what
        self._text = b"\0".join(name for name, _, _ in rows)
        self._libraries = tuple(sorted({library for _, library, _ in rows}))
        numbers = {library: number for number, library in enumerate(self._libraries)}
        self._library = array("I", (numbers[library] for _, library, _ in rows))
        self._weak = bytes(weak for _, _, weak in rows)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once."""
        return frozenset(self._all_names)

    @cached_property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, ""): Mach-O symbols have no versions."""
        grouped: dict[int, set[str]] = {}
        for name, library in zip(self._all_names, self._library, strict=True):
            grouped.setdefault(library, set()).add(name)
        return {(self._libraries[key], ""): frozenset(each) for key, each in grouped.items()}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a library that an import is asked of."""
        return tuple(self._make(position) for position in self._positions.get(name, ()))

    def __iter__(self) -> Iterator[Symbol]:
        return (self._make(position) for position in range(len(self)))

    def __len__(self) -> int:
        return len(self._weak)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolTable) and sorted(self, key=repr) == sorted(other, key=repr)

    def __hash__(self) -> int:
        return hash(tuple(self))  # as that of Symbols

    def __repr__(self) -> str:
        return f"<{len(self)} {self._what}>"

    @cached_property
    def _all_names(self) -> list[str]:
        names = (b"\0" + self._text).replace(b"\0_", b"\0")
        return decode(names).split("\0")[1:] if self._weak else []

    @cached_property
    def _positions(self) -> dict[str, tuple[int, ...]]:
        positions: dict[str, tuple[int, ...]] = {}
        for position, name in enumerate(self._all_names):
            positions[name] = (*positions.get(name, ()), position)
        return positions

    def _make(self, position: int) -> Symbol:
        return Symbol(
            name=self._all_names[position],
            library=self._libraries[self._library[position]],
            weak=bool(self._weak[position]),
        )


def read_symbols(
    source: Slice, header: MachHeader, commands: Commands, needed: Sequence[Dependency]
) -> tuple[SymbolTable, SymbolTable]:
    """Imports and exports. Raises MalformedError."""
    binds, exports = _read_tables(source, header, commands)
    libraries = {number: item.name for number, item in enumerate(needed, 1)}
    libraries |= {_MAIN_EXECUTABLE: MAIN_EXECUTABLE, _EVERYWHERE: "", _WEAK_LOOKUP: ""}
    return (
        _tabulate(_list_imports(binds, exports, libraries), "imports"),
        _tabulate(_list_exports(exports, libraries), "exports"),
    )


def _read_tables(
    source: Slice, header: MachHeader, commands: Commands
) -> tuple[list[Bind], list[Export]]:
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    trie = commands.first(LC_DYLD_EXPORTS_TRIE)
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    symbols = commands.first(LC_SYMTAB)
    if fixups is None and trie is None and opcodes is None:
        return read_nlist(source, header, symbols) if symbols else ([], [])
    binds: list[Bind] = []
    exports: list[Export] = []
    if opcodes is not None:
        _, _, eager, eager_size, _, _, lazy, lazy_size, start, size = opcodes.unpack("10I")
        # The weak table is left out: what only it names is there already, or may be missing.
        binds += read_opcodes(source.read(eager, eager_size), lazy=False)
        binds += read_opcodes(source.read(lazy, lazy_size), lazy=True)
        exports += walk_trie(source.read(start, size))
    if fixups is not None:
        binds += read_chained_imports(source.read(*fixups.unpack("II")), header.byte_order)
    if trie is not None:
        exports += walk_trie(source.read(*trie.unpack("II")))
    return binds, exports


def _list_imports(
    binds: Iterable[Bind], exports: Iterable[Export], libraries: Mapping[int, str]
) -> Iterator[_Row]:
    own = {item.name for item in exports}
    for bind in binds:
        if bind.ordinal == _SELF or (bind.ordinal == _WEAK_LOOKUP and bind.name in own):
            continue
        yield bind.name, _library_of(bind.name, bind.ordinal, libraries), bind.weak


def _list_exports(exports: Iterable[Export], libraries: Mapping[int, str]) -> Iterator[_Row]:
    for item in exports:
        library = _library_of(item.name, item.ordinal, libraries) if item.ordinal else ""
        yield item.name, library, bool(item.flags & WEAK_DEFINITION)


def _library_of(name: bytes, ordinal: int, libraries: Mapping[int, str]) -> str:
    try:
        return libraries[ordinal]
    except KeyError:
        raise MalformedError(f"{decode(name)} is asked of dylib {ordinal}, there is none") from None


def _tabulate(rows: Iterable[_Row], what: str) -> SymbolTable:
    """Each name once a library; what is bound in two tables may be missing only by both."""
    merged: dict[tuple[bytes, str], bool] = {}
    for name, library, weak in rows:
        merged[name, library] = weak and merged.get((name, library), True)
    if not merged:
        return NO_SYMBOLS
    return MachOSymbolTable([(*key, weak) for key, weak in merged.items()], what)
