"""Reads the dynamic symbols of an ELF file, and keeps them as bytes until somebody asks."""

from __future__ import annotations

import threading
import weakref
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from binary_checks.errors import MalformedError
from binary_checks.model import NO_SYMBOLS, Symbol, SymbolTable
from binary_checks.objects.elf.dynamic import DT_SYMENT, DT_SYMTAB, DT_VERSYM, Dynamic
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.sections import Section
from binary_checks.objects.elf.symbol_columns import HIDDEN, DynamicSymbols
from binary_checks.objects.elf.symbol_count import count_symbols
from binary_checks.objects.elf.symbol_table import ENTRY_SIZE, SymbolColumns
from binary_checks.objects.elf.versions import Versions

_STB_WEAK = 2
_MOST = 1 << 22  # symbols; the largest libraries have some hundred thousand


_KEPT = 400_000  # names; 3 million of them take 350 MB


class _Memory:
    """Which tables have their names at hand: where they are too many, the oldest forget theirs."""

    def __init__(self) -> None:
        self._tables: deque[tuple[weakref.ref[ElfSymbolTable], int]] = deque()
        self._names = 0
        self._one_at_a_time = threading.Lock()

    def add(self, table: ElfSymbolTable, names: int) -> None:
        """Take in one that has just read so many."""
        with self._one_at_a_time:
            self._tables.append((weakref.ref(table), names))
            self._names += names
            while self._names > _KEPT and len(self._tables) > 1:
                oldest, count = self._tables.popleft()
                self._names -= count
                if (known := oldest()) is not None:
                    known.forget()


_MEMORY = _Memory()


class ElfSymbolTable(SymbolTable):
    """One side of an object's dynamic symbols: what it imports or what it exports."""

    __slots__ = (
        "__weakref__", "_are_imports", "_by_version", "_indices", "_names", "_positions", "_raw",
        "_set",
    )  # fmt: skip

    def __init__(self, raw: DynamicSymbols, *, are_imports: bool) -> None:
        self._raw = raw
        self._are_imports = are_imports
        self._indices: array[int] | None = None
        self.forget()

    def forget(self) -> None:
        """Let go of all names, at any time and in any thread: they can be read again."""
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._by_version: dict[tuple[str, str], frozenset[str]] | None = None
        self._positions: tuple[dict[str, int], dict[str, list[int]]] | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""
        known = self._set
        if known is None:
            known = self._set = frozenset(self._all_names())
        return known

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, version); the library of an export is ""."""
        known = self._by_version
        if known is None:
            known = self._by_version = self._group()
        return known

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version."""
        known = self._positions
        if known is None:
            known = self._positions = self._number()
        first, others = known
        if name not in first:
            return ()
        return tuple(self._make((first[name], *others.get(name, ()))))

    def _number(self) -> tuple[dict[str, int], dict[str, list[int]]]:
        """By name its first position, and the others of those with several versions."""
        first: dict[str, int] = {}
        others: dict[str, list[int]] = {}
        for position, known in enumerate(self._all_names()):
            if first.setdefault(known, position) != position:
                others.setdefault(known, []).append(position)
        return first, others

    def __contains__(self, name: object) -> bool:
        if self._set is None and not (isinstance(name, str) and self._raw.mentions(name)):
            return False
        return name in self.names

    def __iter__(self) -> Iterator[Symbol]:
        return self._make(range(len(self)))

    def __len__(self) -> int:
        return len(self._chosen())

    def __repr__(self) -> str:
        return f"<{len(self)} {'imports' if self._are_imports else 'exports'}>"

    def _chosen(self) -> array[int]:
        if self._indices is None:
            self._indices = self._raw.imports() if self._are_imports else self._raw.exports()
        return self._indices

    def _all_names(self) -> list[str]:
        names = self._names
        if names is None:
            names = self._names = list(self._stream_names())
            _MEMORY.add(self, len(names))
        return names

    def each_name(self) -> Iterator[str]:
        """Every name; those of a table with more than all may keep are made, and let go of."""
        if self._names is not None or len(self) <= _KEPT:
            return iter(self._all_names())
        return self._stream_names()

    def may_mention(self, piece: str) -> bool:
        """Whether the strings have it."""
        return self._raw.mentions(piece)

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it has."""
        if self._set is not None or len(self) <= _KEPT:
            return self.names.intersection(names)
        wanted = names if isinstance(names, (set, frozenset)) else frozenset(names)
        return frozenset(filter(wanted.__contains__, self._stream_names() if wanted else ()))

    def _stream_names(self) -> Iterator[str]:
        return chain.from_iterable(self._raw.decode_names(self._chosen()))

    def _group(self) -> dict[tuple[str, str], frozenset[str]]:
        raw, grouped = self._raw, defaultdict[int, list[str]](list)
        if not raw.versions:
            return {("", ""): self.names}
        for name, index in zip(self._all_names(), self._chosen(), strict=True):
            grouped[raw.versions[index] & ~HIDDEN].append(name)
        found: dict[tuple[str, str], frozenset[str]] = {}
        for number, names in grouped.items():
            library, version = raw.by_index.get(number, ("", ""))
            key = (library if self._are_imports else "", version)
            found[key] = found.get(key, frozenset()).union(names)
        return found

    def _make(self, positions: Iterable[int]) -> Iterator[Symbol]:
        raw, chosen, names = self._raw, self._chosen(), self._all_names()
        are_imports, versions, bindings = self._are_imports, raw.versions, raw.bindings
        for position in positions:
            index = chosen[position]
            library, version = raw.version(index)
            hidden = not are_imports and bool(versions) and versions[index] >= HIDDEN
            yield Symbol(
                name=names[position],
                library=library if are_imports else "",
                version=version,
                weak=bindings[index] >> 4 == _STB_WEAK,
                hidden=hidden,
            )


def read_columns(
    image: MappedImage, dynamic: Dynamic, sections: Iterable[Section]
) -> SymbolColumns:
    """DT_SYMTAB; empty where it has no symbols. Raises MalformedError, or TooLarge for more."""
    table = _read_table(image, dynamic, sections) if DT_SYMTAB in dynamic else b""
    return SymbolColumns(table, image.header.bits, image.header.byte_order)


def _read_table(image: MappedImage, dynamic: Dynamic, sections: Iterable[Section]) -> bytes:
    size = ENTRY_SIZE[image.header.bits]
    if dynamic.value(DT_SYMENT) != size:
        raise MalformedError(f"dynamic symbols of {dynamic.value(DT_SYMENT)} bytes each")
    count = count_symbols(image, dynamic, sections, size)
    return image.read(dynamic.value(DT_SYMTAB), count * size, "DT_SYMTAB", _MOST * size)


def read_symbols(
    image: MappedImage, dynamic: Dynamic, versions: Versions, columns: SymbolColumns
) -> tuple[SymbolTable, SymbolTable]:
    """Imports and exports of a DT_SYMTAB. Raises MalformedError."""
    count = len(columns)
    if count < 2:  # entry 0 is no symbol
        return NO_SYMBOLS, NO_SYMBOLS
    indices = b""
    if DT_VERSYM in dynamic:
        indices = image.read(dynamic.value(DT_VERSYM), count * 2, "DT_VERSYM")
    raw = DynamicSymbols(columns, image, dynamic.strings, indices, versions.by_index)
    raw.verify()
    return ElfSymbolTable(raw, are_imports=True), ElfSymbolTable(raw, are_imports=False)
