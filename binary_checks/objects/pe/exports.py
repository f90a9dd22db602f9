"""Reads what a PE image exports: names, ordinals, and forwarders to other libraries."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct

from binary_checks.errors import MalformedError
from binary_checks.model import NO_SYMBOLS, Symbol, SymbolTable
from binary_checks.objects.pe.header import EXPORT, PeHeader
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.names import NameStretches, PeSymbolTable

# Flags, time, version (2); name, first ordinal, counts of functions and names, three tables.
_DIRECTORY = Struct("<IIHHIIIIIII")
_MOST = 1 << 16  # ordinals have 16 bits
_MOST_NAMES = 1 << 18


class PeExports(PeSymbolTable):
    """What an object exports: by name, and then what has an ordinal only."""

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
        self._directory = directory  # an export whose address lies in here is a forwarder
        self._functions = functions  # addresses, by index
        self._places, indices = names  # addresses of names, and the function each stands for
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
        """The last address of the image that it exports."""
        return max(self._functions, default=0)

    @property
    def lowest_name(self) -> int:
        """The first address of a name; far away where there is none."""
        return min(self._places, default=1 << 32)

    @property
    def forwarders(self) -> Mapping[str, str]:
        """By name, whose function an export stands for, where it does."""
        return super().forwarders if self._forwarders else {}

    def _decode_names(self) -> list[str]:
        unnamed = self._indices[len(self._places) :]
        return self._texts.decode(self._places) + [f"#{self._base + index}" for index in unnamed]

    def _aliases(self, position: int) -> Iterable[str]:
        """Its ordinal, by which what has a name can be asked for too."""
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
    """The name that the export directory gives the image, and its exports.

    Raises MalformedError, or TooLarge for more than are read.
    """
    start, size = image.header.directories[EXPORT]
    if not start:
        return "", NO_SYMBOLS
    fields = image.unpack(_DIRECTORY, start, "the export directory")
    name, base, function_count, name_count, functions_at, names_at, indices_at = fields[4:]
    called = image.text(name, "the export directory's name") if name else ""
    if function_count > _MOST:
        raise MalformedError(f"the export directory claims {function_count} exports")
    functions = _read_column(image, "I", functions_at, function_count, "the export addresses")
    places = _read_column(image, "I", names_at, name_count, "the names of exports")
    short = _read_column(image, "H", indices_at, name_count, "the ordinals of exports")
    indices = array("I", short)
    if indices and max(indices) >= function_count:
        raise MalformedError(f"a name stands for export {max(indices)} of {function_count}")
    if not function_count:
        return called, NO_SYMBOLS
    places, indices = _drop_empty(functions, places, indices)
    directory = range(start, start + size)
    texts = NameStretches(image, places, "the name of an export")
    inside = [address for address in functions if start <= address < start + size]
    forwarders = NameStretches(image, inside, "the target of a forwarder")
    return called, PeExports(base, directory, functions, (places, indices), (texts, forwarders))


def find_export_faults(exports: SymbolTable, header: PeHeader) -> Iterator[str]:
    """Say which exports lead out of the image: a process that calls one dies."""
    if not isinstance(exports, PeExports):
        return
    if (highest := exports.highest_address) >= header.image_size:
        yield f"exports address {highest:#x}, its image has {header.image_size:#x} bytes"
    if (lowest := exports.lowest_name) < header.headers_size:
        yield f"has the name of an export at address {lowest:#x}, in its headers"


def find_hollow_tables(image: MappedImage) -> Iterator[str]:
    """Say which tables of exports lie in memory that the file does not fill."""
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
    """Without the names that stand for no address: what nobody can get is not exported."""
    if 0 not in functions:
        return places, indices
    kept = [pair for pair in zip(places, indices, strict=True) if functions[pair[1]]]
    return array("I", (place for place, _ in kept)), array("I", (index for _, index in kept))


def _read_column(image: MappedImage, kind: str, address: int, count: int, what: str) -> array[int]:
    """A table of 4 ("I") or 2 ("H") bytes an entry."""
    column = array(kind)
    size = column.itemsize
    column.frombytes(image.read(address, count * size, what, _MOST_NAMES * size))
    if sys.byteorder == "big":
        column.byteswap()
    return column
