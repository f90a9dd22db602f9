"""Reads what a PE image imports, at load and at first use, by name and by ordinal."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, SymbolTable
from binary_checks.model.objects import make_dependency
from binary_checks.objects.pe.header import DELAY_IMPORT, IMPORT
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.names import NameStretches, PeSymbolTable

DESCRIPTOR = Struct("<IIIII")  # lookup table, time, forwarder chain, name, address table
DELAYED = Struct("<IIIIIIII")  # attributes, name, module, addresses, names, bound, unload, time
_RELATIVE = 1  # of a delayed one's attributes; without it addresses are absolute (Visual C++ 6)
_BY_ORDINAL = 1 << 31  # as we keep it; in the file it is the highest bit of either width
_MOST_LIBRARIES = 1 << 12
_MOST_SYMBOLS = 1 << 20  # the largest libraries have some ten thousand
_BLOCK = 16 * 1024
_HINT = 2  # bytes before a name: its place among the names of the exporting library


class ImportedLibrary(NamedTuple):
    """One import descriptor."""

    name: str
    delayed: bool
    lookup: int  # address of the table that names what is imported
    base: int  # what the table's addresses are relative to, beside the image base
    addresses: int  # address of the table that the loader fills in

    @property
    def table(self) -> str:
        """What errors call its lookup table."""
        return f"the table of imports from {self.name[:80]!r}"


class PeImports(PeSymbolTable):
    """What an object imports, in the order of its descriptors."""

    __slots__ = ("_ends", "_libraries", "_numbered", "_texts", "_thunks")

    def __init__(
        self,
        libraries: tuple[str, ...],
        ends: tuple[int, ...],
        thunks: array[int],
        texts: NameStretches,
        *,
        numbered: bool,
    ) -> None:
        super().__init__()
        self._libraries = libraries
        self._ends = ends  # where each library's symbols end among all
        self._numbered = numbered  # whether any of them has an ordinal in place of a name
        self._thunks = thunks  # the address of a hint and a name, or an ordinal and _BY_ORDINAL
        self._texts = texts

    def __len__(self) -> int:
        return len(self._thunks)

    @property
    def lowest_name(self) -> int:
        """The first address of a name, behind which are all ordinals as they are kept."""
        return min(self._thunks)

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """By DLL the names that are asked of it: none may be missing."""
        names, found, start = self._all_names(), dict[str, frozenset[str]](), 0
        for library, end in zip(self._libraries, self._ends, strict=True):
            if start < end:
                group = frozenset(names[start:end])
                found[library] = found[library] | group if library in found else group
            start = end
        return found

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (DLL, ""): PE symbols have no versions."""
        return {(library, ""): names for library, names in self.strong.items()}

    def _decode_names(self) -> list[str]:
        if not self._numbered:
            return self._texts.decode(self._thunks)
        named = (thunk for thunk in self._thunks if thunk < _BY_ORDINAL)
        texts = iter(self._texts.decode(named))
        return [
            next(texts) if thunk < _BY_ORDINAL else f"#{thunk ^ _BY_ORDINAL}"
            for thunk in self._thunks
        ]

    def _make(self, position: int, name: str) -> Symbol:
        thunk = self._thunks[position]
        return Symbol(
            name=name,
            library=self._libraries[bisect_right(self._ends, position)],
            ordinal=thunk ^ _BY_ORDINAL if thunk >= _BY_ORDINAL else None,
        )


Read = tuple[tuple[Dependency, ...], SymbolTable, tuple[ImportedLibrary, ...], tuple[int, ...]]


def read_imports(image: MappedImage) -> Read:
    """The needed libraries, those of first use last, and what is imported of them.

    With them come the descriptors, and where the symbols of each end among all.

    A library that several descriptors name is needed once. Raises MalformedError, or TooLarge
    for more than are read.
    """
    libraries = (*_read_eager(image), *_read_delayed(image))
    distinct = dict.fromkeys((item.name, item.delayed) for item in libraries)
    needed = tuple(make_dependency(name=name, delayed=delayed) for name, delayed in distinct)
    tables = _LookupTables(image)
    thunks, ends = array(tables.kind), []
    for library in libraries:
        tables.read(library, thunks)
        ends.append(len(thunks))
    if not thunks:
        return needed, NO_SYMBOLS, libraries, tuple(ends)
    named = (thunk for thunk in thunks if thunk < _BY_ORDINAL) if tables.numbered else thunks
    texts = NameStretches(image, named, "the name of an import", skip=_HINT)
    names = tuple(item.name for item in libraries)
    imports = PeImports(names, tuple(ends), thunks, texts, numbered=tables.numbered)
    return needed, imports, libraries, tuple(ends)


def _read_eager(image: MappedImage) -> Iterator[ImportedLibrary]:
    """Every import descriptor, until one without name or addresses, as the loader has it."""
    for address in _walk(image, IMPORT, DESCRIPTOR):
        lookup, _, _, name, addresses = image.unpack(DESCRIPTOR, address, "an import descriptor")
        if not name or not addresses:
            return
        # Old linkers (Borland's, Watcom's) write no lookup table: the other one says the same.
        yield ImportedLibrary(
            image.text(name, "the name of a library"), False, lookup or addresses, 0, addresses
        )


def _read_delayed(image: MappedImage) -> Iterator[ImportedLibrary]:
    """Every delay-load descriptor, until one without name."""
    for address in _walk(image, DELAY_IMPORT, DELAYED):
        attributes, name, _, addresses, lookup, *_ = image.unpack(
            DELAYED, address, "a delay-load descriptor"
        )
        if not name:
            return
        base = 0 if attributes & _RELATIVE else image.header.image_base
        text = image.text(name - base, "the name of a library")
        table = addresses - base
        yield ImportedLibrary(text, True, lookup - base if lookup else 0, base, table)


def _walk(image: MappedImage, directory: int, layout: Struct) -> Iterator[int]:
    """The address of one descriptor after the other; the loader looks at no size either."""
    start, _ = image.header.directories[directory]
    if not start:
        return
    most = image.source.raised(_MOST_LIBRARIES)
    yield from range(start, start + most * layout.size, layout.size)
    raise TooLarge(f"it needs more than {most} libraries, no more are read")


class _LookupTables:
    """The tables that name what is imported; those of several libraries are read at once."""

    def __init__(self, image: MappedImage) -> None:
        wide = image.header.bits == 64
        self.kind = "Q" if wide else "I"
        self._image = image
        self._size, self._highest = (8, 1 << 63) if wide else (4, 1 << 31)
        self._start, self._end = 0, 0  # addresses of what was read last
        self._rows = array(self.kind)
        self.numbered = False  # whether anything is imported by its ordinal

    def read(self, library: ImportedLibrary, thunks: array[int]) -> None:
        """Append what is imported of one library."""
        address = library.lookup
        while address:
            first = self._find(address, library)
            end = _find_zero(self._rows, first)
            thunks.extend(self._take(self._rows[first:end], library))
            if len(thunks) > (most := self._image.source.raised(_MOST_SYMBOLS)):
                raise TooLarge(f"it imports more than {most} symbols, no more are read")
            address = 0 if end < len(self._rows) else self._go_on(library)

    def _find(self, address: int, library: ImportedLibrary) -> int:
        """The row that is at an address."""
        row, rest = divmod(address - self._start, self._size)
        if rest or not 0 <= row < len(self._rows):
            block = self._image.read_some(address, _BLOCK, library.table)
            self._start, self._end, row = address, address + len(block), 0
            self._rows = array(self.kind, block[: len(block) - len(block) % self._size])
            if sys.byteorder == "big":
                self._rows.byteswap()
        return row

    def _go_on(self, library: ImportedLibrary) -> int:
        """Where a table goes on that has not ended in what was read; 0 where zeros end it."""
        if self._end - self._start == _BLOCK:
            return self._end
        self._image.locate(self._end, library.table)  # the file need not hold them, memory has to
        return 0

    def _take(self, rows: array[int], library: ImportedLibrary) -> array[int]:
        """As we keep them; nearly always all are addresses."""
        if not library.base and max(rows, default=0) < _BY_ORDINAL - _HINT:
            return rows
        return array(self.kind, (self._take_one(row, library) for row in rows))

    def _take_one(self, row: int, library: ImportedLibrary) -> int:
        if row & self._highest:
            self.numbered = True
            return (row & 0xFFFF) | _BY_ORDINAL
        if not 0 <= row - library.base < _BY_ORDINAL - _HINT:
            raise MalformedError(f"{library.table} points to address {row:#x}")
        return row - library.base


def _find_zero(rows: array[int], first: int) -> int:
    """Where the first zero is from there on, or the end of all rows."""
    try:
        return rows.index(0, first)
    except ValueError:
        return len(rows)
