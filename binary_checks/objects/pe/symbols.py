"""Read the imports and exports of a PE image; names are decoded only on demand."""

from __future__ import annotations

import sys
from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import sub
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import NO_SYMBOLS, Dependency, Symbol, SymbolTable, make_dependency
from binary_checks.objects.pe.header import (
    DELAY_IMPORT,
    EXPORT,
    IMPORT,
    MappedImage,
    PeHeader,
    decode,
)

# Symbols are stored as numbers, their names as a few contiguous stretches of bytes. Names and
# symbols are created from these on demand.

# bytes between two names that are still read together; also the limit on the length of a name
_GAP = 1 << 16
_TAIL = 512  # bytes read first to find the end of a stretch's last name
_LONGEST_FORWARDER = 1024  # bytes
_MOST_OF_NAMES = 1 << 26  # bytes of names in one image; the largest libraries have some megabytes


class NameStretches:
    """NUL-terminated names by address."""

    __slots__ = ("_size", "_starts", "_texts", "_what")

    def __init__(
        self, image: MappedImage, addresses: Iterable[int], what: str, *, skip: int = 0
    ) -> None:
        """Read the names at these addresses, or ``skip`` bytes after each address.

        Raises MalformedError if a name has no end, TooLarge if names exceed the limits.
        """
        # for errors that are raised later, when the image is no longer known
        self._what = f"{what} in {image.path}"
        self._starts: list[int] = []  # the address at which each stretch begins
        self._texts: list[str] = []  # one character per byte
        self._size = 0
        for first, last in _find_stretches(image, sorted(addresses), skip, what):
            self._starts.append(first)
            self._texts.append(self._read(image, first + skip, last + skip, what))
        self._size = sum(map(len, self._texts))

    def __len__(self) -> int:
        return self._size

    def _read(self, image: MappedImage, first: int, last: int, what: str) -> str:
        """Return the bytes from the beginning of the first name to the end of the last."""
        tail = image.read_some(last, _TAIL, what)
        if b"\0" not in tail:
            tail = image.read_some(last, _GAP, what)
        if b"\0" not in tail:
            if len(tail) == _GAP:
                raise _too_long(f"{what} at address {last:#x}", _GAP)
            raise MalformedError(f"{what} at address {last:#x} has no end in its section")
        self._size += last - first
        if self._size > (most := image.source.limit(_MOST_OF_NAMES)):
            reason = f"take {self._size} bytes; at most {most} are read"
            raise TooLarge(f"{what} and others like it {reason}")
        piece = image.read(first, last - first, what) + tail[: tail.index(b"\0") + 1]
        return piece.decode("latin-1")

    def decode(self, addresses: Iterable[int]) -> list[str]:
        """Return the names at these addresses, in order.

        Names may overlap. In real images the names together are about as long as their stretches;
        in a crafted image they could be far longer. Raises TooLarge in that case.
        """
        names: list[str] = []
        most = budget = 4 * self._size + (1 << 20)
        for stretch, group in self._group(addresses):
            text, start, left = self._texts[stretch], self._starts[stretch], iter(group)
            # That many names fit, whatever their lengths.
            fitting = 1 + budget // min(len(text), _GAP)
            while portion := [address - start for address in islice(left, fitting)]:
                found = self._cut(text, portion, _GAP)
                names += found
                budget -= len("".join(found))
                if budget < 0:
                    reason = f"have more than {most} bytes together; no more are read"
                    raise TooLarge(f"{self._what} and others like it {reason}")
        return names

    def _group(self, addresses: Iterable[int]) -> Iterable[tuple[int, Iterable[int]]]:
        """Yield each stretch with the run of consecutive addresses that lie in it."""
        if len(self._texts) == 1:
            return ((0, addresses),)
        return groupby(addresses, self._find)

    def decode_one(self, address: int) -> str:
        """Return the name at one address. Raises TooLarge if it is longer than the limit."""
        stretch = self._find(address)
        start = address - self._starts[stretch]
        return self._cut(self._texts[stretch], [start], _LONGEST_FORWARDER)[0]

    def _find(self, address: int) -> int:
        """Return the index of the stretch that contains an address."""
        return bisect_right(self._starts, address) - 1

    def _cut(self, text: str, places: Iterable[int], longest: int) -> list[str]:
        """Return the names at these offsets in a stretch. Raises TooLarge if one is too long."""
        find = text.find
        if len(text) <= longest:
            names = [text[start : find("\0", start)] for start in places]
        else:
            ends = [(start, find("\0", start, start + longest)) for start in places]
            if any(end < 0 for _, end in ends):
                raise _too_long(self._what, longest)
            names = [text[start:end] for start, end in ends]
        if "".join(names).isascii():  # only the names must be ASCII, not the hints between them
            return names
        return [decode(name.encode("latin-1")) for name in names]


def _too_long(what: str, longest: int) -> TooLarge:
    return TooLarge(f"{what} has more than {longest} bytes; longer ones are not read")


def _find_stretches(
    image: MappedImage, addresses: Sequence[int], skip: int, what: str
) -> Iterator[tuple[int, int]]:
    """Yield each stretch's first and last name; a stretch has no large gaps.

    All names of a stretch lie in one section.
    """
    stops = [len(addresses)] if addresses else []
    if addresses and addresses[-1] - addresses[0] > _GAP:
        gaps = map(sub, addresses[1:], addresses)
        stops[:0] = (number for number, gap in enumerate(gaps, 1) if gap > _GAP)
    first = 0
    for stop in stops:
        while first < stop:
            start = addresses[first]
            end = start + image.locate(start + skip, what)[1]
            following = bisect_left(addresses, end, first + 1, stop)
            yield start, addresses[following - 1]
            first = following


class PeSymbolTable(SymbolTable):
    """The imports or the exports of an image; a symbol is identified by its position."""

    __slots__ = ("_names", "_positions", "_set")

    def __init__(self) -> None:
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._positions: dict[str, list[int]] | None = None

    @abstractmethod
    def _decode_names(self) -> list[str]:
        """Return the name of each symbol by position; ``#5`` if it has only an ordinal."""

    @abstractmethod
    def _make(self, position: int, name: str) -> Symbol:
        """Return the symbol at a position."""

    def _aliases(self, position: int) -> Iterable[str]:  # noqa: ARG002 - for those that have some
        """Return further names under which the symbol at a position is found."""
        return ()

    @property
    def names(self) -> frozenset[str]:
        """Every name without duplicates; ``#5`` for a symbol that has only an ordinal."""
        if self._set is None:
            self._set = frozenset(self._all_names())
        return self._set

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name."""
        if self._positions is None:
            self._positions = {}
            for position, known in enumerate(self._all_names()):
                for each in (known, *self._aliases(position)):
                    self._positions.setdefault(each, []).append(position)
        names = self._all_names()
        return tuple(self._make(each, names[each]) for each in self._positions.get(name, ()))

    def __iter__(self) -> Iterator[Symbol]:
        return (self._make(position, name) for position, name in enumerate(self._all_names()))

    def __repr__(self) -> str:
        return f"<{len(self)} symbols>"

    def _all_names(self) -> list[str]:
        if self._names is None:
            self._names = self._decode_names()
        return self._names


# Imports (PE, "The .idata Section"): at load and at first use, by name and by ordinal.

# PE, "Import Directory Table": lookup table, time stamp, forwarder chain, name, address table
DESCRIPTOR = Struct("<IIIII")
# PE, "The Delay-Load Directory Table": attributes, name, module handle, address table, name table,
# bound table, unload table, time stamp
DELAYED = Struct("<IIIIIIII")
# Bit 0 of Attributes: fields are RVAs; if clear they are absolute addresses (Visual C++ 6).
_RELATIVE = 1
# Our own mark; the file uses bit 31 of a PE32 entry, bit 63 of a PE32+ entry.
_BY_ORDINAL = 1 << 31
_MOST_LIBRARIES = 1 << 12  # descriptors; real images have some dozens
_MOST_SYMBOLS = 1 << 20  # the largest libraries have some ten thousand
_BLOCK = 16 * 1024  # bytes of lookup tables read at a time
_HINT = 2  # bytes before a name (PE, "Hint/Name Table"): its likely index in the exporting library


class ImportedLibrary(NamedTuple):
    """One import descriptor."""

    name: str
    delayed: bool
    lookup: int  # address of the Import Lookup Table, which lists the imported symbols
    base: int  # image base if the lookup table has absolute addresses, else 0
    addresses: int  # address of the Import Address Table, which the loader fills in

    @property
    def table(self) -> str:
        """The name of the lookup table in errors."""
        return f"the table of imports from {self.name[:80]!r}"


class PeImports(PeSymbolTable):
    """The imports of an object, in the order of its descriptors."""

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
        self._ends = ends  # by library, the position after its last symbol
        self._numbered = numbered  # whether any symbol is imported by ordinal
        self._thunks = thunks  # addresses of hint and name, or ordinals marked with _BY_ORDINAL
        self._texts = texts

    def __len__(self) -> int:
        return len(self._thunks)

    @property
    def lowest_name(self) -> int:
        """The lowest address of a name. All marked ordinals are larger numbers."""
        return min(self._thunks)

    @property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """The imported names by DLL; every import is required."""
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
    """Return needed libraries (delay-loaded ones last), imports, descriptors and their ends.

    The ends are the positions after the last symbol of each descriptor. A library with several
    descriptors is listed once. Raises MalformedError, or TooLarge if the limits are exceeded.
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
    """Yield import descriptors up to one without name or address table, where loaders stop."""
    for address in _walk(image, IMPORT, DESCRIPTOR):
        lookup, _, _, name, addresses = image.unpack(DESCRIPTOR, address, "an import descriptor")
        if not name or not addresses:
            return
        # Old linkers (Borland's, Watcom's) write no lookup table: the address table has the same
        # entries.
        yield ImportedLibrary(
            image.text(name, "the name of a library"), False, lookup or addresses, 0, addresses
        )


def _read_delayed(image: MappedImage) -> Iterator[ImportedLibrary]:
    """Yield delay-load descriptors until one has no name (OpenConsole.exe of pywinpty 3.1.2)."""
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
    """Yield the address of each descriptor; like the loader, ignore the directory's size."""
    start, _ = image.header.directories[directory]
    if not start:
        return
    most = image.source.limit(_MOST_LIBRARIES)
    yield from range(start, start + most * layout.size, layout.size)
    raise TooLarge(f"it needs more than {most} libraries; no more are read")


class _LookupTables:
    """Reads lookup tables in blocks; one block may contain the tables of several libraries."""

    def __init__(self, image: MappedImage) -> None:
        wide = image.header.bits == 64
        self.kind = "Q" if wide else "I"
        self._image = image
        self._size, self._highest = (8, 1 << 63) if wide else (4, 1 << 31)
        self._start, self._end = 0, 0  # addresses of the last block
        self._rows = array(self.kind)
        self.numbered = False  # whether any symbol is imported by ordinal

    def read(self, library: ImportedLibrary, thunks: array[int]) -> None:
        """Append the imports of one library to ``thunks``."""
        address = library.lookup
        while address:
            first = self._find(address, library)
            end = _find_zero(self._rows, first)
            thunks.extend(self._take(self._rows[first:end], library))
            if len(thunks) > (most := self._image.source.limit(_MOST_SYMBOLS)):
                raise TooLarge(f"it imports more than {most} symbols; no more are read")
            address = 0 if end < len(self._rows) else self._go_on(library)

    def _find(self, address: int, library: ImportedLibrary) -> int:
        """Return the index of the row at an address; read its block if necessary."""
        row, rest = divmod(address - self._start, self._size)
        if rest or not 0 <= row < len(self._rows):
            block = self._image.read_some(address, _BLOCK, library.table)
            self._start, self._end, row = address, address + len(block), 0
            self._rows = array(self.kind, block[: len(block) - len(block) % self._size])
            if sys.byteorder == "big":
                self._rows.byteswap()
        return row

    def _go_on(self, library: ImportedLibrary) -> int:
        """Return the address where an unfinished table continues.

        Return 0 if the table ends in zeros that are in memory only.
        """
        if self._end - self._start == _BLOCK:
            return self._end
        # The zeros must be in memory, though not in the file.
        self._image.locate(self._end, library.table)
        return 0

    def _take(self, rows: array[int], library: ImportedLibrary) -> array[int]:
        """Convert rows to the form that `PeImports` uses; addresses usually stay as they are."""
        if not library.base and max(rows, default=0) < _BY_ORDINAL - _HINT:
            return rows
        return array(self.kind, (self._take_one(row, library) for row in rows))

    def _take_one(self, row: int, library: ImportedLibrary) -> int:
        if row & self._highest:
            self.numbered = True
            return (row & 0xFFFF) | _BY_ORDINAL  # PE, "Import Lookup Table": bits 15 to 0
        if not 0 <= row - library.base < _BY_ORDINAL - _HINT:
            raise MalformedError(f"{library.table} points to address {row:#x}")
        return row - library.base


def _find_zero(rows: array[int], first: int) -> int:
    """Return the index of the next zero row, or the number of rows."""
    try:
        return rows.index(0, first)
    except ValueError:
        return len(rows)


# Exports (PE, "The .edata Section (Image Only)"): names, ordinals, forwarders.

# PE, "Export Directory Table": flags, time stamp, version (2), name, ordinal base, number of
# functions and of names, addresses of three tables (functions, names, ordinals).
_DIRECTORY = Struct("<IIHHIIIIIII")
_MOST_EXPORTS = 1 << 16  # ordinals have 16 bits
_MOST_NAMES = 1 << 18  # entries of the name and ordinal tables


class PeExports(PeSymbolTable):
    """The exports of an object: first the named ones, then the ones with only an ordinal."""

    __slots__ = (
        "_base", "_directory", "_forwarders", "_functions", "_indices", "_places", "_texts",
    )  # fmt: skip

    def __init__(
        self,
        base: int,
        directory: range,
        functions: array[int],
        names: tuple[array[int], array[int]],
        texts: tuple[NameStretches, NameStretches],
    ) -> None:
        super().__init__()
        self._base = base
        self._directory = directory  # an address inside the export directory is a forwarder's text
        self._functions = functions  # addresses, by index
        self._places, indices = names  # addresses of names, and the index of each name's function
        self._texts, self._forwarders = texts
        named = set(indices)
        if len(named) < len(functions):
            rest = (i for i, address in enumerate(functions) if address and i not in named)
            indices = indices + array("I", rest)
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def highest_address(self) -> int:
        """The highest exported address."""
        return max(self._functions, default=0)

    @property
    def lowest_name(self) -> int:
        """The lowest address of a name; 1 << 32 if there are no names."""
        return min(self._places, default=1 << 32)

    @property
    def forwarders(self) -> Mapping[str, str]:
        """The target of each export that is a forwarder ("NTDLL.RtlAllocateHeap"), by name."""
        return super().forwarders if self._forwarders else {}

    def _decode_names(self) -> list[str]:
        unnamed = self._indices[len(self._places) :]
        return self._texts.decode(self._places) + [f"#{self._base + index}" for index in unnamed]

    def _aliases(self, position: int) -> Iterable[str]:
        """Return the second name of a named symbol: its ordinal, as in ``#7``."""
        return (f"#{self._base + self._indices[position]}",) if position < len(self._places) else ()

    def _make(self, position: int, name: str) -> Symbol:
        index = self._indices[position]
        address = self._functions[index]
        forwarded = address in self._directory
        return Symbol(
            name=name,
            ordinal=self._base + index,
            forwarder=self._forwarders.decode_one(address) if forwarded else "",
        )


def read_exports(image: MappedImage) -> tuple[str, SymbolTable]:
    """Return the image's name from the export directory, and its exports.

    Raises MalformedError, or TooLarge if the limits are exceeded.
    """
    start, size = image.header.directories[EXPORT]
    if not start:
        return "", NO_SYMBOLS
    fields = image.unpack(_DIRECTORY, start, "the export directory")
    name, base, function_count, name_count, functions_at, names_at, indices_at = fields[4:]
    called = image.text(name, "the export directory's name") if name else ""
    if function_count > _MOST_EXPORTS:
        raise MalformedError(f"the export directory claims {function_count} exports")
    functions = _read_column(image, "I", functions_at, function_count, "the export addresses")
    places = _read_column(image, "I", names_at, name_count, "the names of exports")
    short = _read_column(image, "H", indices_at, name_count, "the ordinals of exports")
    indices = array("I", short)
    if indices and max(indices) >= function_count:
        raise MalformedError(
            f"a name refers to export {max(indices)}, but there are only {function_count}"
        )
    if not function_count:
        return called, NO_SYMBOLS
    places, indices = _drop_empty(functions, places, indices)
    directory = range(start, start + size)
    texts = NameStretches(image, places, "the name of an export")
    inside = [address for address in functions if start <= address < start + size]
    forwarders = NameStretches(image, inside, "the target of a forwarder")
    return called, PeExports(base, directory, functions, (places, indices), (texts, forwarders))


def find_export_faults(exports: SymbolTable, header: PeHeader) -> Iterator[str]:
    """Yield exports with addresses outside of the image: a process that calls one crashes."""
    if not isinstance(exports, PeExports):
        return
    if (highest := exports.highest_address) >= header.image_size:
        yield f"exports address {highest:#x}, but its image has only {header.image_size:#x} bytes"
    if (lowest := exports.lowest_name) < header.headers_size:
        yield f"has the name of an export at address {lowest:#x}, in its headers"


def find_hollow_tables(image: MappedImage) -> Iterator[str]:
    """Yield export tables that lie in memory without contents from the file."""
    start, _ = image.header.directories[EXPORT]
    if not start:
        return
    fields = image.unpack(_DIRECTORY, start, "the export directory")
    functions, names, *places = fields[6:]
    sizes = (4 * functions, 4 * names, 2 * names)
    for what, place, size in zip(("addresses", "names", "ordinals"), places, sizes, strict=True):
        if size and image.locate(place, f"the {what} of exports")[1] < size:
            yield f"has the {what} of its exports in memory that the file does not fill"
        if size and place < image.header.headers_size:
            yield f"has the {what} of its exports at address {place:#x}, in its headers"


def _drop_empty(
    functions: array[int], places: array[int], indices: array[int]
) -> tuple[array[int], array[int]]:
    """Drop names with address 0: they cannot be imported, so they do not count as exports.

    libsndfile_x86.dll of soundfile 0.14.0 has some.
    """
    if 0 not in functions:
        return places, indices
    kept = [pair for pair in zip(places, indices, strict=True) if functions[pair[1]]]
    return array("I", (place for place, _ in kept)), array("I", (index for _, index in kept))


def _read_column(image: MappedImage, kind: str, address: int, count: int, what: str) -> array[int]:
    """Return a table of entries of 4 ("I") or 2 ("H") bytes."""
    column = array(kind)
    size = column.itemsize
    column.frombytes(image.read(address, count * size, what, _MOST_NAMES * size))
    if sys.byteorder == "big":
        column.byteswap()
    return column
