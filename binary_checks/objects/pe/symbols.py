"""Read the imports and exports of a PE image."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count as count_up
from struct import Struct

from binary_checks.errors import MalformedError
from binary_checks.model import (
    NO_SYMBOLS,
    Dependency,
    Symbol,
    Symbols,
    SymbolTable,
)
from binary_checks.objects.pe.header import DELAY_IMPORT, EXPORT, IMPORT, MappedImage

# PE, "Import Directory Table": lookup table, time stamp, forwarder chain, name, address table
_DESCRIPTOR = Struct("<IIIII")
# PE, "The Delay-Load Directory Table": attributes, name, module handle, address table, name table,
# bound table, unload table, time stamp
_DELAYED = Struct("<IIIIIIII")
# PE, "Export Directory Table": flags, time stamp, version (2), name, ordinal base, number of
# functions and of names, addresses of three tables (functions, names, ordinals).
_DIRECTORY = Struct("<IIHHIIIIIII")
_MOST = 1 << 16  # libraries, exports
_BLOCK = 1 << 12  # bytes of a lookup table that are read at a time


class Exports(Symbols):
    """Exports, which are found by their ordinals, too: ``#7``."""

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name or ordinal."""
        if name.startswith("#"):
            return tuple(each for each in self if f"#{each.ordinal}" == name)
        return super().find(name)


def read_imports(image: MappedImage) -> tuple[tuple[Dependency, ...], SymbolTable]:
    """Return needed libraries, delay-loaded ones last, and imports. Raises MalformedError."""
    needed: dict[Dependency, None] = {}
    symbols: list[Symbol] = []
    for name, delayed, table, base in (*_list_eager(image), *_list_delayed(image)):
        needed[Dependency(name=name, delayed=delayed)] = None
        symbols += _read_lookup(image, table, base, name)
    return tuple(needed), Symbols(symbols) if symbols else NO_SYMBOLS


def _list_eager(image: MappedImage) -> Iterator[tuple[str, bool, int, int]]:
    """Yield descriptors up to one without name or address table, where loaders stop."""
    start, _ = image.header.directories[IMPORT]
    for number in count_up() if start else ():
        lookup, _, _, name, addresses = image.unpack(
            _DESCRIPTOR, start + number * _DESCRIPTOR.size, "an import descriptor"
        )
        if not name or not addresses:
            return
        # Old linkers (Borland's, Watcom's) write no lookup table.
        yield image.text(name, "the name of a library"), False, lookup or addresses, 0


def _list_delayed(image: MappedImage) -> Iterator[tuple[str, bool, int, int]]:
    start, _ = image.header.directories[DELAY_IMPORT]
    for number in count_up() if start else ():
        attributes, name, _, _, lookup, *_ = image.unpack(
            _DELAYED, start + number * _DELAYED.size, "a delay-load descriptor"
        )
        if not name:
            return
        base = 0 if attributes & 1 else image.header.image_base  # Visual C++ 6: absolute addresses
        text = image.text(name - base, "the name of a library")
        yield text, True, lookup - base if lookup else 0, base


def _read_lookup(image: MappedImage, table: int, base: int, library: str) -> Iterator[Symbol]:
    """Yield the imports of one library, by name or by ordinal."""
    layout = Struct("<Q" if image.header.bits == 64 else "<I")
    while table:
        what = f"the table of imports from {library[:80]!r}"
        offset, available, _ = image.locate(table, what)
        length = min(available, _BLOCK) // layout.size * layout.size
        if not length:  # zeros that are in no file
            return
        for (row,) in layout.iter_unpack(image.source.read(offset, length)):
            if not row:
                return
            image.source.charge_symbol(layout.size)
            if row >> image.header.bits - 1:
                yield Symbol(name=f"#{row & 0xFFFF}", library=library, ordinal=row & 0xFFFF)
            else:  # 2 bytes before the name are its likely index in the library
                name = image.text(row - base + 2, "the name of an import")
                yield Symbol(name=name, library=library)
        table += length


def read_exports(image: MappedImage) -> tuple[str, SymbolTable]:
    """Return the image's name from the export directory, and its exports."""
    start, size = image.header.directories[EXPORT]
    if not start:
        return "", NO_SYMBOLS
    *_, name, base, count, names, functions_at, names_at, indices_at = image.unpack(
        _DIRECTORY, start, "the export directory"
    )
    called = image.text(name, "the export directory's name") if name else ""
    if count > _MOST:
        raise MalformedError(f"the export directory claims {count} exports")
    addresses = _read_column(image, "<I", functions_at, count)
    pairs = zip(
        _read_column(image, "<I", names_at, names),
        _read_column(image, "<H", indices_at, names),
        strict=True,
    )
    found: list[tuple[int, str]] = []
    for place, index in pairs:
        if index >= count:
            raise MalformedError(f"a name refers to export {index}, but there are only {count}")
        if addresses[index]:
            found.append((index, image.text(place, "the name of an export")))
    named = {index for index, _ in found}
    rest = (each for each, at in enumerate(addresses) if at and each not in named)
    found += [(index, f"#{base + index}") for index in rest]
    exports = [
        Symbol(
            name=text,
            ordinal=base + index,
            forwarder=image.text(addresses[index], "the target of a forwarder")
            if start <= addresses[index] < start + size
            else "",
        )
        for index, text in found
    ]
    return called, Exports(exports) if exports else NO_SYMBOLS


def _read_column(image: MappedImage, kind: str, address: int, count: int) -> list[int]:
    layout = Struct(kind)
    table = image.read(address, count * layout.size, "a table of exports")
    return [value for (value,) in layout.iter_unpack(table)]
