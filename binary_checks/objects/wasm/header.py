"""Read the header, the sections and the `dylink.0` section of a WebAssembly module.

"Core" is the WebAssembly Core Specification 3.0, whose chapter 5 defines the binary format. The
sections `dylink.0`, `target_features` and `producers` are defined by WebAssembly's tool conventions
(DynamicLinking.md, Linking.md, ProducersSection.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import Dependency, make_dependency
from binary_checks.objects.byte_source import LimitedSource

# Numbers and names (Core 5.2): unsigned LEB128 of at most 32 or 64 bits, names in UTF-8.

_MOST_BITS = 64


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
            raise MalformedError(
                f"{length} bytes are expected, but the section has {self.left} left", self.place
            )
        self.position += length
        return self._contents[self.position - length : self.position]

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def number(self) -> int:
        """Return the next unsigned LEB128 number. Raises MalformedError beyond 64 bits."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift >= _MOST_BITS:
                raise MalformedError("a number of more than 64 bits", self.place)

    def count(self) -> int:
        """Return the length of the vector that follows, each of whose items has a byte or more."""
        count = self.number()
        if count > self.left:
            raise MalformedError(
                f"a vector of {count} items in the {self.left} bytes left of the section",
                self.place,
            )
        return count

    def name(self) -> str:
        """Return the next name. Raises MalformedError if it is not UTF-8 (Core 5.2.4)."""
        start, contents = self.place, self.take(self.number())
        try:
            return contents.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError(f"the name {contents[:40]!r} is not UTF-8", start) from None


# The header (Core 5.5.16): the magic number, and the version, which is 1. Components have version
# 0x1000d, which no engine of Emscripten loads.

MAGIC: Final = b"\0asm"
_VERSION = 1
_SIZE = 8  # bytes


class WasmHeader(NamedTuple):
    """The fields of the header."""

    version: int


def read_header(source: LimitedSource) -> WasmHeader:
    """Read the header. Raises MalformedError."""
    if source.size < _SIZE:
        raise MalformedError("the file ends within the header", source.size)
    version = int.from_bytes(source.read(4, 4), "little")
    if version != _VERSION:
        raise MalformedError(f"version {version:#x} instead of {_VERSION}", 4)
    return WasmHeader(version)


def architecture_of(memories: Sequence[Memory]) -> str:
    """Return the architecture as in names of extension modules: wasm64 with 64-bit addresses."""
    return "wasm64" if any(memory.is_64_bit for memory in memories) else "wasm32"


# Sections (Core 5.5.2): an id of one byte, the size in bytes, and the contents. Except for custom
# sections, each occurs once at most, in this order.

CUSTOM: Final = 0
TYPE: Final = 1
IMPORT: Final = 2
FUNCTION: Final = 3
TABLE: Final = 4
MEMORY: Final = 5
GLOBAL: Final = 6
EXPORT: Final = 7
START: Final = 8
ELEMENT: Final = 9
CODE: Final = 10
DATA: Final = 11
DATA_COUNT: Final = 12
TAG: Final = 13

SECTION_NAMES: Final = {
    TYPE: "type",
    IMPORT: "import",
    FUNCTION: "function",
    TABLE: "table",
    MEMORY: "memory",
    TAG: "tag",
    GLOBAL: "global",
    EXPORT: "export",
    START: "start",
    ELEMENT: "element",
    DATA_COUNT: "data count",
    CODE: "code",
    DATA: "data",
}
"""The sections that are not custom, in the order in which they must occur."""
_MOST_SECTIONS = 10_000  # custom sections may repeat; real modules have some twenty sections
_LONGEST_HEAD = 6  # bytes of an id and a size


class Section(NamedTuple):
    """One section; offset and size are those of its contents without the name, in bytes."""

    id: int
    name: str  # of a custom section; "" for the others
    offset: int
    size: int

    @property
    def end(self) -> int:
        """The offset of the first byte after the section."""
        return self.offset + self.size


def read_sections(source: LimitedSource) -> tuple[Section, ...]:
    """Return all sections. Raises MalformedError if one ends beyond the file, or TooLarge."""
    found = []
    for section in iter_sections(source):
        found.append(section)
        source.require_at_most(len(found), _MOST_SECTIONS, "sections")
    return tuple(found)


def iter_sections(source: LimitedSource) -> Iterator[Section]:
    """Yield the sections in the order of the file. Raises MalformedError."""
    position = _SIZE
    while position < source.size:
        head = Cursor(source.read(position, min(_LONGEST_HEAD, source.size - position)), position)
        kind, size = head.byte(), head.number()
        start = head.place
        end = start + size
        if end > source.size:
            name = SECTION_NAMES.get(kind, "custom" if kind == CUSTOM else f"number {kind}")
            raise MalformedError(
                f"its {name} section ends at byte {end}, but the file has {source.size} bytes",
                position,
            )
        if kind == CUSTOM:
            label, begin = _read_name(source, start, size)
            yield Section(kind, label, begin, end - begin)
        else:
            yield Section(kind, "", start, size)
        position = end


_LONGEST_NAME = 1 << 10  # bytes of a custom section's name that are read


def _read_name(source: LimitedSource, start: int, size: int) -> tuple[str, int]:
    """Return the name of a custom section, and the offset after it (Core 5.5.3)."""
    cursor = Cursor(source.read(start, min(size, _LONGEST_NAME)), start)
    return cursor.name(), cursor.place


_LARGEST_TABLE = 64 << 20  # bytes of a section that is read completely


def open_section(source: LimitedSource, section: Section) -> Cursor:
    """Return a cursor at the beginning of a section. Raises TooLarge for a huge section."""
    what = f"bytes in its section {section.name or SECTION_NAMES.get(section.id, section.id)}"
    source.require_at_most(section.size, _LARGEST_TABLE, what)
    return Cursor(source.read(section.offset, section.size), section.offset)


def find_section(sections: Sequence[Section], kind: int, name: str = "") -> Section | None:
    """Return the first section of an id, and of a name if it is custom; None without one."""
    return next((each for each in sections if (each.id, each.name) == (kind, name)), None)


# Memories (Core 5.3.9): the limits have flags. Threads need a shared memory.

_HAS_MAXIMUM, _IS_SHARED, _IS_64_BIT = 1, 2, 4
_HAS_PAGE_SIZE = 8  # custom page sizes, a proposal: a number follows


class Memory(NamedTuple):
    """One memory, imported or defined."""

    is_shared: bool
    is_64_bit: bool


def read_limits(cursor: Cursor) -> Memory:
    """Read the limits of a memory or a table."""
    flags = cursor.byte()
    for _ in range(2 if flags & _HAS_MAXIMUM else 1):
        cursor.number()
    if flags & _HAS_PAGE_SIZE:
        cursor.number()
    return Memory(bool(flags & _IS_SHARED), bool(flags & _IS_64_BIT))


def read_memories(source: LimitedSource, sections: Sequence[Section]) -> tuple[Memory, ...]:
    """Return the memories that the module defines itself; a side module imports its memory."""
    section = find_section(sections, MEMORY)
    if section is None:
        return ()
    cursor = open_section(source, section)
    return tuple(read_limits(cursor) for _ in range(cursor.count()))


# The facts that a side module states in `dylink.0`, which must be its first section. Subsections
# have an id of one byte and a size. Before 2021 the section was called `dylink` and had no
# subsections.

DYLINK: Final = "dylink.0"
LEGACY_DYLINK: Final = "dylink"
_MEMORY_INFO, _NEEDED, _EXPORT_INFO, _IMPORT_INFO, _RUNTIME_PATH = range(1, 6)
_WEAK = 1  # WASM_SYMBOL_BINDING_WEAK


class Dylink(NamedTuple):
    """The contents of the section; sizes in bytes and in entries of the function table."""

    memory_size: int = 0
    memory_alignment: int = 1  # bytes
    table_size: int = 0
    needed: tuple[Dependency, ...] = ()
    weak: frozenset[tuple[str, str]] = frozenset()  # module and name of imports that may be missing
    runtime_path: tuple[str, ...] = ()


def read_dylink(source: LimitedSource, sections: Sequence[Section]) -> Dylink | None:
    """Return what a side module states; None for a module that is not one."""
    section = find_section(sections, CUSTOM, DYLINK)
    if section is None:
        legacy = find_section(sections, CUSTOM, LEGACY_DYLINK)
        return None if legacy is None else _read_legacy(open_section(source, legacy))
    cursor, found = open_section(source, section), Dylink()
    while cursor.left:
        kind, size = cursor.byte(), cursor.number()
        part = Cursor(cursor.take(size), cursor.place - size)
        if kind == _MEMORY_INFO:
            found = _read_memory(part, found)
        elif kind == _NEEDED:
            found = found._replace(needed=_read_needed(part))
        elif kind == _IMPORT_INFO:
            rows = [(part.name(), part.name(), part.number()) for _ in range(part.count())]
            weak = frozenset((module, name) for module, name, flags in rows if flags & _WEAK)
            found = found._replace(weak=weak)
        elif kind == _RUNTIME_PATH:
            paths = tuple(part.name() for _ in range(part.count()))
            found = found._replace(runtime_path=paths)
    return found


def _read_legacy(cursor: Cursor) -> Dylink:
    found = _read_memory(cursor, Dylink())
    return found._replace(needed=_read_needed(cursor))


_HIGHEST_ALIGNMENT = 31  # as a power of two


def _read_memory(cursor: Cursor, found: Dylink) -> Dylink:
    size, alignment, table, _ = (cursor.number() for _ in range(4))
    if alignment > _HIGHEST_ALIGNMENT:
        raise MalformedError(f"a memory aligned to 2**{alignment} bytes", cursor.place)
    return found._replace(memory_size=size, memory_alignment=1 << alignment, table_size=table)


def _read_needed(cursor: Cursor) -> tuple[Dependency, ...]:
    return tuple(make_dependency(name=cursor.name()) for _ in range(cursor.count()))


# Further custom sections of the tool conventions.

_USED = b"+="  # prefixes of features that the code uses; "-" is for features that it must not meet


def read_features(source: LimitedSource, sections: Sequence[Section]) -> tuple[str, ...] | None:
    """Return the features that the code uses: "simd128", "atomics"; None if none are stated."""
    section = find_section(sections, CUSTOM, "target_features")
    if section is None:
        return None
    cursor = open_section(source, section)
    rows = [(cursor.byte(), cursor.name()) for _ in range(cursor.count())]
    return tuple(sorted(name for prefix, name in rows if prefix in _USED))


def read_producers(source: LimitedSource, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the tools that made the module: "clang 22.0.0git"."""
    section = find_section(sections, CUSTOM, "producers")
    if section is None:
        return ()
    cursor = open_section(source, section)
    fields = []
    for _ in range(cursor.count()):
        cursor.name()  # "language", "processed-by", "sdk"
        fields += [(cursor.name(), cursor.name()) for _ in range(cursor.count())]
    return tuple(sorted({f"{name} {version}".strip() for name, version in fields}))
