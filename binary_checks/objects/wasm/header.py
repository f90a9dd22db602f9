"""Read the header and the sections of a WebAssembly module.

"Core" is the WebAssembly Core Specification 3.0, whose chapter 5 defines the binary format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import LimitedSource

# Core 5.5.2: ids of sections
CUSTOM: Final = 0
TYPE: Final = 1
IMPORT: Final = 2
FUNCTION: Final = 3
MEMORY: Final = 5
EXPORT: Final = 7
DATA: Final = 11
DYLINK: Final = "dylink.0"
LEGACY_DYLINK: Final = "dylink"
"""The section of a side module, which before 2021 had no subsections."""

_VERSION = 1  # components have version 0x1000d, which no engine of Emscripten loads
_SIZE = 8  # bytes of the header: magic number and version (Core 5.5.16)
_MOST_BITS = 64
_LONGEST_HEAD = 6  # bytes of an id and a size
_LONGEST_NAME = 1 << 10  # bytes of a custom section's name that are read
_HAS_MAXIMUM, _IS_SHARED, _IS_64_BIT = 1, 2, 4
_HAS_PAGE_SIZE = 8  # custom page sizes, a proposal: a number follows
_ItemT = TypeVar("_ItemT")


class Cursor:
    """A position in the contents of one section; every read stays inside the section."""

    def __init__(self, contents: bytes, offset: int) -> None:
        self._contents, self._offset = contents, offset
        self.position = 0

    @property
    def place(self) -> int:
        """The position in bytes from the start of the file."""
        return self._offset + self.position

    @property
    def left(self) -> int:
        """The number of bytes behind the position."""
        return len(self._contents) - self.position

    def take(self, length: int) -> bytes:
        """Return the next bytes. Raises MalformedError at the end of the section."""
        if length > self.left:
            reason = f"{length} bytes are expected, but the section has {self.left} left"
            raise MalformedError(reason, self.place)
        self.position += length
        return self._contents[self.position - length : self.position]

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def number(self) -> int:
        """Return the next unsigned LEB128 number (Core 5.2.2). Raises MalformedError."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift >= _MOST_BITS:
                raise MalformedError("a number of more than 64 bits", self.place)

    def name(self) -> str:
        """Return the next name. Raises MalformedError if it is not UTF-8 (Core 5.2.4)."""
        start, contents = self.place, self.take(self.number())
        try:
            return contents.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError(f"the name {contents[:40]!r} is not UTF-8", start) from None

    def vector(self, read: Callable[[Cursor], _ItemT]) -> list[_ItemT]:
        """Return the items of the next vector (Core 5.1.3), each of which has a byte or more."""
        count = self.number()
        if count > self.left:
            reason = f"a vector of {count} items in the {self.left} bytes left of the section"
            raise MalformedError(reason, self.place)
        return [read(self) for _ in range(count)]


def read_header(source: LimitedSource) -> None:
    """Raise MalformedError unless the file begins like a module of version 1."""
    if source.size < _SIZE:
        raise MalformedError("the file ends within the header", source.size)
    version = int.from_bytes(source.read(4, 4), "little")
    if version != _VERSION:
        raise MalformedError(f"version {version:#x} instead of {_VERSION}", 4)


class Section(NamedTuple):
    """One section; offset and size are those of its contents without the name, in bytes."""

    id: int
    name: str  # of a custom section; "" for the others
    offset: int
    size: int


def read_sections(source: LimitedSource) -> tuple[Section, ...]:
    """Return all sections. Raises MalformedError if one ends beyond the file."""
    return tuple(iter_sections(source))


def iter_sections(source: LimitedSource) -> Iterator[Section]:
    """Yield the sections in the order of the file. Raises MalformedError."""
    position = _SIZE
    while position < source.size:
        head = Cursor(source.read(position, min(_LONGEST_HEAD, source.size - position)), position)
        kind, size = head.byte(), head.number()
        start, end, name = head.place, head.place + size, ""
        if end > source.size:
            reason = f"section {kind} ends at byte {end}, but the file has {source.size} bytes"
            raise MalformedError(reason, position)
        if kind == CUSTOM:  # Core 5.5.3: the contents begin with a name
            label = Cursor(source.read(start, min(size, _LONGEST_NAME)), start)
            name, start = label.name(), label.place
        yield Section(kind, name, start, end - start)
        position = end


def find_section(sections: Sequence[Section], kind: int, name: str = "") -> Section | None:
    """Return the first section of an id, and of a name if it is custom; None without one."""
    return next((each for each in sections if (each.id, each.name) == (kind, name)), None)


def open_section(
    source: LimitedSource, sections: Sequence[Section], kind: int, name: str = ""
) -> Cursor:
    """Return a cursor at the beginning of a section, or at an empty vector if there is none."""
    section = find_section(sections, kind, name)
    if section is None:
        return Cursor(b"\0", source.size)
    return Cursor(source.read(section.offset, section.size), section.offset)


class Memory(NamedTuple):
    """One memory, imported or defined."""

    is_shared: bool  # as threads need it
    is_64_bit: bool


def read_limits(cursor: Cursor) -> Memory:
    """Read the limits of a memory or a table (Core 5.3.9)."""
    flags = cursor.byte()
    for _ in range(1 + bool(flags & _HAS_MAXIMUM) + bool(flags & _HAS_PAGE_SIZE)):
        cursor.number()
    return Memory(bool(flags & _IS_SHARED), bool(flags & _IS_64_BIT))


def architecture_of(memories: Sequence[Memory]) -> str:
    """Return the architecture as in names of extension modules: wasm64 with 64-bit addresses."""
    return "wasm64" if any(memory.is_64_bit for memory in memories) else "wasm32"
