"""The named dynamic symbols of an ELF file, kept as bytes and integers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.elf.dynamic import decode
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.relocations import column
from binary_checks.objects.elf.symbol_table import SymbolColumns

HIDDEN = 0x8000
"""Of a version index: name@VERSION, never chosen for an import without version."""
_SHN_ABS = 0xFFF1
_GLOBAL = bytes(info > 15 for info in range(256))  # st_info: any binding but STB_LOCAL
_VISIBLE = bytes(other & 3 in (0, 3) for other in range(256))  # STV_DEFAULT, STV_PROTECTED

_AT_ONCE = 32  # names, between two looks at how long they are together


class DynamicSymbols:
    """The columns of DT_SYMTAB that count, and what their names and versions refer to."""

    __slots__ = (
        "bindings",
        "by_index",
        "names",
        "path",
        "sections",
        "strings",
        "versions",
        "visibilities",
    )

    def __init__(
        self,
        columns: SymbolColumns,
        image: MappedImage,
        strings: bytes,
        versions: bytes,
        by_index: Mapping[int, tuple[str, str]],
    ) -> None:
        self.path = image.path
        self.names, self.sections = columns.names, columns.sections
        self.bindings, self.visibilities = columns.information, columns.views
        # Empty: the object has no versions.
        self.versions = column("H", versions, image.header.byte_order)
        self.strings = strings
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

    def name(self, index: int) -> str:
        """The name of one symbol."""
        start = self.names[index]
        return decode(self.strings[start : self.strings.index(b"\0", start)])

    def mentions(self, name: str) -> bool:
        """Whether the strings have the name, or that part of one: quick while none was made."""
        if not name.isascii() or "\\" in name:  # bytes that are not UTF-8 are named by escapes
            return True
        return name.encode() in self.strings

    def imports(self) -> array[int]:
        """The undefined symbols but local ones."""
        names, bindings = self.names, self.bindings
        undefined = (index for index, section in enumerate(self.sections) if not section)
        return array("I", (index for index in undefined if bindings[index] > 15 and names[index]))

    def exports(self) -> array[int]:
        """The defined symbols that other objects can see, of any version.

        Without those that GNU ld adds to name a version node: absolute ones, called as the node.
        """
        names, seen = self.names, self.bindings.translate(_GLOBAL)
        visible = self.visibilities.translate(_VISIBLE)
        defined = compress(range(len(names)), self.sections)
        found = (i for i in defined if seen[i] and visible[i] and names[i])
        if _SHN_ABS in self.sections:
            found = (i for i in found if self.sections[i] != _SHN_ABS or not self._is_node(i))
        return array("I", found)

    def _is_node(self, index: int) -> bool:
        start, node = self.names[index], self.version(index)[1].encode()
        return bool(node) and self.strings[start : start + len(node) + 1] == node + b"\0"

    def decode_names(self, indices: array[int]) -> Iterator[list[str]]:
        """The names of those symbols, some at a time.

        Linkers merge common endings, so that a name may begin inside of another. All names of a
        real file together are about as long as its strings. Raises TooLarge for those made to
        explode.
        """
        strings, most = self.strings, 2 * len(self.strings) + (1 << 20)
        length = 0  # of all names
        slice_all = _slice_text if strings.isascii() else _slice_bytes
        place = self.names.__getitem__
        blocks = (indices[at : at + _AT_ONCE] for at in range(0, len(indices), _AT_ONCE))
        for pieces in slice_all(strings, (map(place, block) for block in blocks)):
            length += sum(map(len, pieces))
            if length > most:
                reason = f"have more than {most} bytes together, no more are read"
                raise TooLarge(f"the names of the symbols of {self.path} {reason}")
            yield pieces


def _slice_text(strings: bytes, blocks: Iterable[Iterable[int]]) -> Iterator[list[str]]:
    """The strings that begin there, some at a time."""
    text = strings.decode("ascii")
    find = text.index
    for starts in blocks:
        yield [text[start : find("\0", start)] for start in starts]


def _slice_bytes(strings: bytes, blocks: Iterable[Iterable[int]]) -> Iterator[list[str]]:
    """The same where not all of them are ASCII."""
    find = strings.index
    for starts in blocks:
        yield [decode(strings[start : find(b"\0", start)]) for start in starts]
