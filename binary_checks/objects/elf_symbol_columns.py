"""The columns of an ELF file's dynamic symbol table, kept as bytes and integers."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate, compress, count
from operator import add
from typing import cast

from binary_checks.errors import MalformedError
from binary_checks.objects.elf_dynamic import decode
from binary_checks.objects.elf_segments import LoadedImage

ENTRY_SIZE = {32: 16, 64: 24}
HIDDEN = 0x8000
"""Of a version index: name@VERSION, never chosen for an import without version."""
_SHN_ABS = 0xFFF1
_GLOBAL = bytes(info > 15 for info in range(256))  # st_info: any binding but STB_LOCAL
_VISIBLE = bytes(other & 3 in (0, 3) for other in range(256))  # STV_DEFAULT, STV_PROTECTED


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
        size = ENTRY_SIZE[image.header.bits]
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
        unknown = {index & ~HIDDEN for index in set(self.versions)} - {0, 1, *self.by_index}
        if unknown:
            raise MalformedError(f"DT_VERSYM names version {min(unknown)}, which nothing defines")

    def version(self, index: int) -> tuple[str, str]:
        """Library and version node of a symbol; "" where it has none."""
        if not self.versions:
            return "", ""
        return self.by_index.get(self.versions[index] & ~HIDDEN, ("", ""))

    def imports(self) -> array[int]:
        """The undefined symbols but local ones."""
        names, bindings = self.names, self.bindings
        undefined = (index for index, section in enumerate(self.sections) if not section)
        return array("I", [index for index in undefined if bindings[index] > 15 and names[index]])

    def exports(self) -> array[int]:
        """The defined symbols that other objects can see, of any version.

        Without those that GNU ld adds to name a version node: absolute ones, called as the node.
        """
        names, seen = self.names, self.bindings.translate(_GLOBAL)
        visible = self.visibilities.translate(_VISIBLE)
        defined = compress(range(len(names)), self.sections)
        found = [i for i in defined if seen[i] and visible[i] and names[i]]
        if _SHN_ABS in self.sections:
            found = [i for i in found if self.sections[i] != _SHN_ABS or not self._is_node(i)]
        return array("I", found)

    def _is_node(self, index: int) -> bool:
        start, node = self.names[index], self.version(index)[1].encode()
        return bool(node) and self.strings[start : start + len(node) + 1] == node + b"\0"

    def decode_names(self, indices: Collection[int]) -> list[str]:
        """The names of those symbols.

        Linkers merge common endings, so that a name may begin inside of another. All names of a
        real file together are about as long as its strings; one made to explode is cut short.
        """
        if self.texts is None:
            self.texts = _split(self.strings)
        names = list(map(self.texts.get, map(self.names.__getitem__, indices)))
        if None in names:
            self._fill(names, indices)
        return cast("list[str]", names)

    def _fill(self, names: list[str | None], indices: Iterable[int]) -> None:
        budget = len(self.strings) + (1 << 20)
        for position, index in enumerate(indices):
            if names[position] is None:
                start = self.names[index]
                end = self.strings.index(b"\0", start)
                budget -= end - start
                name = self.strings[start : end if budget > 0 else start + 64]
                names[position] = decode(name)


def _split(strings: bytes) -> dict[int, str]:
    """The strings of a table by where they begin."""
    pieces = strings.split(b"\0")
    starts = map(add, accumulate(map(len, pieces), initial=0), count())  # a NUL after each
    if strings.isascii():
        return dict(zip(starts, strings.decode("ascii").split("\0"), strict=False))
    return dict(zip(starts, map(decode, pieces), strict=False))


def _column(kind: str, table: bytes, byte_order: str) -> array[int]:
    """The bytes as machine integers, 4 ("I") or 2 ("H") bytes each."""
    column = array(kind, table)
    if (byte_order == "<") != (sys.byteorder == "little"):
        column.byteswap()
    return column
