"""Reads the dynamic symbols of an ELF file, and keeps them as bytes until somebody asks."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, count
from operator import add

from binary_checks.errors import MalformedError
from binary_checks.model import NO_SYMBOLS, Symbol, SymbolTable
from binary_checks.objects.elf_dynamic import DT_SYMENT, DT_SYMTAB, DT_VERSYM, Dynamic, decode
from binary_checks.objects.elf_sections import Section
from binary_checks.objects.elf_segments import LoadedImage
from binary_checks.objects.elf_symbol_count import count_symbols
from binary_checks.objects.elf_versions import Versions

_ENTRY_SIZE = {32: 16, 64: 24}
_SHN_UNDEF = 0
_SHN_ABS = 0xFFF1
_STB_WEAK = 2
_STV_DEFAULT = 0
_STV_PROTECTED = 3
_HIDDEN = 0x8000  # of a version index: name@VERSION, never chosen for an import without version


class DynamicSymbols:
    """The columns of DT_SYMTAB that count, and what their names and versions refer to."""

    __slots__ = (
        "bindings",
        "by_index",
        "names",
        "sections",
        "strings",
        "texts",
        "versions",
        "visibilities",
    )

    def __init__(
        self,
        table: bytes,
        image: LoadedImage,
        strings: bytes,
        versions: bytes,
        by_index: Mapping[int, tuple[str, str]],
    ) -> None:
        order, wide = image.header.byte_order, image.header.bits == 64
        size = _ENTRY_SIZE[image.header.bits]
        self.names = _column("I", table, order)[:: size // 4]  # st_name
        self.bindings = table[4 if wide else 12 :: size]  # st_info
        self.visibilities = table[5 if wide else 13 :: size]  # st_other
        self.sections = _column("H", table, order)[3 if wide else 7 :: size // 2]  # st_shndx
        self.versions = _column("H", versions, order)  # empty: the object has no versions
        self.strings = strings
        self.texts: dict[int, str] | None = None  # by where they begin, once somebody asks
        self.by_index = by_index

    def verify(self) -> None:
        """Raise MalformedError for a name or a version that is not there."""
        if max(self.names) >= len(self.strings):
            raise MalformedError("a dynamic symbol's name lies beyond DT_STRTAB")
        unknown = {index & ~_HIDDEN for index in set(self.versions)} - {0, 1, *self.by_index}
        if unknown:
            raise MalformedError(f"DT_VERSYM names version {min(unknown)}, which nothing defines")

    def version(self, index: int) -> tuple[str, str]:
        """Library and version node of a symbol; "" where it has none."""
        if not self.versions:
            return "", ""
        return self.by_index.get(self.versions[index] & ~_HIDDEN, ("", ""))

    def imports(self) -> array[int]:
        """The undefined symbols but local ones."""
        columns = enumerate(zip(self.sections, self.bindings, self.names, strict=True))
        return array(
            "I", (i for i, (section, info, name) in columns if not section and info > 15 and name)
        )

    def exports(self) -> array[int]:
        """The defined symbols that other objects can see, of any version.

        Without those that GNU ld adds to name a version node: absolute ones, called as the node.
        """
        rows = zip(self.sections, self.bindings, self.visibilities, self.names, strict=True)
        visible = (_STV_DEFAULT, _STV_PROTECTED)
        return array(
            "I",
            (
                index
                for index, (section, info, other, name) in enumerate(rows)
                if section and info > 15 and name and other & 3 in visible
                if section != _SHN_ABS or not self._names_a_version(index)
            ),
        )

    def _names_a_version(self, index: int) -> bool:
        start, node = self.names[index], self.version(index)[1].encode()
        return bool(node) and self.strings[start : start + len(node) + 1] == node + b"\0"

    def decode_names(self, indices: Iterable[int]) -> list[str]:
        """The names of those symbols.

        Linkers merge common endings, so that a name may begin inside of another. All names of a
        real file together are about as long as its strings; one made to explode is cut short.
        """
        if self.texts is None:
            self.texts = _split(self.strings)
        texts, starts, names = self.texts, self.names, []
        budget = len(self.strings) + (1 << 20)
        for index in indices:
            start = starts[index]
            name = texts.get(start)
            if name is None:
                end = self.strings.index(b"\0", start)
                budget -= end - start
                name = decode(self.strings[start : end if budget > 0 else start + 64])
            names.append(name)
        return names


def _split(strings: bytes) -> dict[int, str]:
    """The strings of a table by where they begin."""
    pieces = strings.split(b"\0")
    starts = map(add, accumulate(map(len, pieces), initial=0), count())  # a NUL after each
    if strings.isascii():
        return dict(zip(starts, strings.decode("ascii").split("\0"), strict=False))
    return dict(zip(starts, map(decode, pieces), strict=False))


class ElfSymbolTable(SymbolTable):
    """One side of an object's dynamic symbols: what it imports or what it exports."""

    __slots__ = (
        "_are_imports", "_by_version", "_first", "_indices", "_names", "_others", "_raw", "_set",
    )  # fmt: skip

    def __init__(self, raw: DynamicSymbols, *, are_imports: bool) -> None:
        self._raw = raw
        self._are_imports = are_imports
        self._indices: array[int] | None = None
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._by_version: dict[tuple[str, str], frozenset[str]] | None = None
        self._first: dict[str, int] | None = None  # name -> its first position
        self._others: dict[str, list[int]] = {}  # further positions of names with several versions

    @property
    def names(self) -> frozenset[str]:
        """Every name once, without versions."""
        if self._set is None:
            self._set = frozenset(self._all_names())
        return self._set

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, version); the library of an export is ""."""
        if self._by_version is None:
            self._by_version = self._group()
        return self._by_version

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a version."""
        if self._first is None:
            self._first = {}
            for position, known in enumerate(self._all_names()):
                if self._first.setdefault(known, position) != position:
                    self._others.setdefault(known, []).append(position)
        first = self._first.get(name)
        if first is None:
            return ()
        return tuple(self._make((first, *self._others.get(name, ()))))

    def __iter__(self) -> Iterator[Symbol]:
        return self._make(range(len(self)))

    def __len__(self) -> int:
        return len(self._chosen())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolTable) and sorted(self, key=repr) == sorted(other, key=repr)

    def __hash__(self) -> int:
        return hash(tuple(self))  # as that of Symbols

    def __repr__(self) -> str:
        return f"<{len(self)} {'imports' if self._are_imports else 'exports'}>"

    def _chosen(self) -> array[int]:
        if self._indices is None:
            self._indices = self._raw.imports() if self._are_imports else self._raw.exports()
        return self._indices

    def _all_names(self) -> list[str]:
        if self._names is None:
            self._names = self._raw.decode_names(self._chosen())
        return self._names

    def _group(self) -> dict[tuple[str, str], frozenset[str]]:
        raw, grouped = self._raw, defaultdict[int, list[str]](list)
        if not raw.versions:
            return {("", ""): self.names}
        for name, index in zip(self._all_names(), self._chosen(), strict=True):
            grouped[raw.versions[index] & ~_HIDDEN].append(name)
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
            hidden = not are_imports and bool(versions) and versions[index] >= _HIDDEN
            yield Symbol(
                name=names[position],
                library=library if are_imports else "",
                version=version,
                weak=bindings[index] >> 4 == _STB_WEAK,
                hidden=hidden,
            )


def read_symbols(
    image: LoadedImage, dynamic: Dynamic, versions: Versions, sections: Iterable[Section]
) -> tuple[SymbolTable, SymbolTable]:
    """Imports and exports. Raises MalformedError."""
    if DT_SYMTAB not in dynamic:
        return NO_SYMBOLS, NO_SYMBOLS
    size = _ENTRY_SIZE[image.header.bits]
    if dynamic.value(DT_SYMENT) != size:
        raise MalformedError(f"dynamic symbols of {dynamic.value(DT_SYMENT)} bytes each")
    count = count_symbols(image, dynamic, sections, size)
    if count < 2:  # entry 0 is no symbol
        return NO_SYMBOLS, NO_SYMBOLS
    table = image.read(dynamic.value(DT_SYMTAB), count * size, "DT_SYMTAB")
    indices = b""
    if DT_VERSYM in dynamic:
        indices = image.read(dynamic.value(DT_VERSYM), count * 2, "DT_VERSYM")
    raw = DynamicSymbols(table, image, dynamic.strings, indices, versions.by_index)
    raw.verify()
    return ElfSymbolTable(raw, are_imports=True), ElfSymbolTable(raw, are_imports=False)


def _column(kind: str, table: bytes, byte_order: str) -> array[int]:
    """The bytes as machine integers, 4 ("I") or 2 ("H") bytes each."""
    column = array(kind, table)
    if (byte_order == "<") != (sys.byteorder == "little"):
        column.byteswap()
    return column
