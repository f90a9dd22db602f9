"""Reads what a PE image imports, at load and at first use, by name and by ordinal."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, SymbolTable
from binary_checks.objects.pe_header import DELAY_IMPORT, IMPORT
from binary_checks.objects.pe_names import Names
from binary_checks.objects.pe_sections import MappedImage
from binary_checks.objects.pe_symbols import PeSymbolTable

_DESCRIPTOR = Struct("<IIIII")  # lookup table, time, forwarder chain, name, address table
_DELAYED = Struct("<IIIIIIII")  # attributes, name, module, addresses, names, bound, unload, time
_RELATIVE = 1  # of a delayed one's attributes; without it addresses are absolute (Visual C++ 6)
_BY_ORDINAL = 1 << 31  # as we keep it; in the file it is the highest bit of either width
_MOST_LIBRARIES = 1 << 12
_MOST_SYMBOLS = 1 << 20  # the largest libraries have some ten thousand
_BLOCK = 4096


class Library(NamedTuple):
    """One import descriptor."""

    name: str
    delayed: bool
    lookup: int  # address of the table that names what is imported
    base: int  # what the table's addresses are relative to, beside the image base


class PeImports(PeSymbolTable):
    """What an object imports, in the order of its descriptors."""

    __slots__ = ("_ends", "_libraries", "_texts", "_thunks")

    def __init__(
        self, libraries: Iterable[str], ends: Iterable[int], thunks: array[int], texts: Names
    ) -> None:
        super().__init__()
        self._libraries = tuple(libraries)
        self._ends = tuple(ends)  # where each library's symbols end among all
        self._thunks = thunks  # the address of a name, or an ordinal and _BY_ORDINAL
        self._texts = texts

    def __len__(self) -> int:
        return len(self._thunks)

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """By DLL the names that are asked of it: none may be missing."""
        names, found, start = self._all_names(), dict[str, frozenset[str]](), 0
        for library, end in zip(self._libraries, self._ends, strict=True):
            found[library] = found.get(library, frozenset()).union(names[start:end])
            start = end
        return {library: group for library, group in found.items() if group}

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (DLL, ""): PE symbols have no versions."""
        return {(library, ""): names for library, names in self.strong.items()}

    def _decode_names(self) -> list[str]:
        named = array("I", (thunk for thunk in self._thunks if thunk < _BY_ORDINAL))
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


def read_imports(image: MappedImage) -> tuple[tuple[Dependency, ...], SymbolTable]:
    """The needed libraries, those of first use last, and what is imported of them.

    A library that several descriptors name is needed once. Raises MalformedError.
    """
    libraries = (*_read_eager(image), *_read_delayed(image))
    needed = dict.fromkeys(Dependency(name=item.name, delayed=item.delayed) for item in libraries)
    thunks, ends = array("I"), []
    for library in libraries:
        _read_thunks(image, library, thunks)
        ends.append(len(thunks))
    if not thunks:
        return tuple(needed), NO_SYMBOLS
    texts = Names(image, (t for t in thunks if t < _BY_ORDINAL), "the name of an import")
    return tuple(needed), PeImports([item.name for item in libraries], ends, thunks, texts)


def _read_eager(image: MappedImage) -> Iterator[Library]:
    """Every import descriptor, until one without name or addresses, as the loader has it."""
    for address in _walk(image, IMPORT, _DESCRIPTOR):
        lookup, _, _, name, addresses = image.unpack(_DESCRIPTOR, address, "an import descriptor")
        if not name or not addresses:
            return
        # Old linkers (Borland's, Watcom's) write no lookup table: the other one says the same.
        yield Library(image.text(name, "the name of a library"), False, lookup or addresses, 0)


def _read_delayed(image: MappedImage) -> Iterator[Library]:
    """Every delay-load descriptor, until one without name."""
    for address in _walk(image, DELAY_IMPORT, _DELAYED):
        attributes, name, _, _, lookup, *_ = image.unpack(
            _DELAYED, address, "a delay-load descriptor"
        )
        if not name:
            return
        base = 0 if attributes & _RELATIVE else image.header.image_base
        text = image.text(name - base, "the name of a library")
        yield Library(text, True, lookup - base if lookup else 0, base)


def _walk(image: MappedImage, directory: int, layout: Struct) -> Iterator[int]:
    """The address of one descriptor after the other; the loader looks at no size either."""
    start, _ = image.header.directories[directory]
    if not start:
        return
    yield from range(start, start + _MOST_LIBRARIES * layout.size, layout.size)
    raise MalformedError(f"more than {_MOST_LIBRARIES} libraries are needed")


def _read_thunks(image: MappedImage, library: Library, thunks: array[int]) -> None:
    """Append what is imported of one library."""
    wide = image.header.bits == 64
    size, highest = (8, 1 << 63) if wide else (4, 1 << 31)
    what = f"the table of imports from {library.name[:80]!r}"
    for address in range(library.lookup, 1 << 32, _BLOCK) if library.lookup else ():
        block = image.read_some(address, _BLOCK, what)
        rows = array("Q" if wide else "I", block[: len(block) - len(block) % size])
        if sys.byteorder == "big":
            rows.byteswap()
        end = rows.index(0) if 0 in rows else len(rows)
        thunks.extend(_take_thunks(rows[:end], library.base, highest, what))
        if len(thunks) > _MOST_SYMBOLS:
            raise MalformedError(f"more than {_MOST_SYMBOLS} symbols are imported")
        if end < len(rows):
            return
        if len(block) < _BLOCK:  # zeros that the file need not hold end it, if memory goes on
            image.locate(address + len(block), what)
            return


def _take_thunks(rows: array[int], base: int, highest: int, what: str) -> Iterable[int]:
    """As we keep them; nearly always all are addresses, to which a hint of two bytes is added."""
    if not base and max(rows, default=0) < _BY_ORDINAL - 2:
        return [address + 2 for address in rows]
    return [_take_thunk(row, base, highest, what) for row in rows]


def _take_thunk(row: int, base: int, highest: int, what: str) -> int:
    if row & highest:
        return (row & 0xFFFF) | _BY_ORDINAL
    if not 0 <= row - base + 2 < _BY_ORDINAL:
        raise MalformedError(f"{what} points to address {row:#x}")
    return row - base + 2
