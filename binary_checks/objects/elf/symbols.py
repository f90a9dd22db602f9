"""Reads the dynamic symbols of an ELF file, and keeps them as bytes until somebody asks."""

from __future__ import annotations

import threading
import weakref
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, starmap

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


_KEPT = 400_000  # names of all tables together; 3 million of them take 350 MB


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
    """One side of an object's dynamic symbols: what it imports or what it exports.

    Its names are made when somebody asks for them, and may be forgotten. A table that has forgotten
    them, or has too many to keep, finds single names by their hashes, of 8 bytes a symbol: names
    are made twice at most, however many libraries ask for some of them.
    """

    __slots__ = (
        "__weakref__", "_are_imports", "_by_version", "_hashes", "_indices", "_is_forgotten",
        "_names", "_raw", "_set",
    )  # fmt: skip

    def __init__(self, raw: DynamicSymbols, *, are_imports: bool) -> None:
        self._raw = raw
        self._are_imports = are_imports
        self._indices: array[int] | None = None
        self._hashes: array[int] | None = None
        self.forget()
        self._is_forgotten = False

    def forget(self) -> None:
        """Let go of all names, at any time and in any thread: they can be read again."""
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._by_version: dict[tuple[str, str], frozenset[str]] | None = None
        self._is_forgotten = True

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
        return tuple(self._make(position, name) for position in self._find_positions(name))

    def _find_positions(self, name: str) -> Iterator[int]:
        """Where the symbols of that name are among the chosen ones."""
        chosen, bits = self._chosen(), self._position_bits
        hashes = self._hashes
        if hashes is None:
            hashes = self._hashes = self._hash_names()
        wanted = _high_bits(name, bits)
        for place in range(bisect_left(hashes, wanted), len(hashes)):
            if hashes[place] >> bits != wanted >> bits:
                break
            position = hashes[place] & ((1 << bits) - 1)
            if self._raw.name(chosen[position]) == name:  # not only its hash
                yield position

    @property
    def _position_bits(self) -> int:
        return len(self).bit_length()

    def _hash_names(self) -> array[int]:
        """The hash of each name with its position in the lowest bits, sorted."""
        bits, names = self._position_bits, self._names or self._stream_names()
        return array("Q", sorted(_high_bits(name, bits) | at for at, name in enumerate(names)))

    def __contains__(self, name: object) -> bool:
        if (known := self._set) is not None:
            return name in known
        return isinstance(name, str) and self._raw.mentions(name) and bool(self.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        return starmap(self._make, enumerate(self._all_names()))

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
        if self._set is None and (self._is_forgotten or len(self) > _KEPT):
            return frozenset(
                name for name in names if any(True for _ in self._find_positions(name))
            )
        return self.names.intersection(names)

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

    def _make(self, position: int, name: str) -> Symbol:
        raw, index, are_imports = self._raw, self._chosen()[position], self._are_imports
        library, version = raw.version(index)
        return Symbol(
            name=name,
            library=library if are_imports else "",
            version=version,
            weak=raw.bindings[index] >> 4 == _STB_WEAK,
            hidden=not are_imports and bool(raw.versions) and raw.versions[index] >= HIDDEN,
        )


def _high_bits(name: str, bits: int) -> int:
    """64 bits of a name's hash, with that many of the lowest left free."""
    return hash(name) % (1 << 64) >> bits << bits


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
