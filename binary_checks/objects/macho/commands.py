"""Reads the load commands, which say everything that a loader does with a Mach-O file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.header import MachHeader, Slice, compile_layout

LC_SEGMENT: Final = 0x1
LC_SYMTAB: Final = 0x2
LC_DYSYMTAB: Final = 0xB
LC_LOAD_DYLIB: Final = 0xC
LC_ID_DYLIB: Final = 0xD
LC_LOAD_DYLINKER: Final = 0xE
LC_ROUTINES: Final = 0x11
LC_SEGMENT_64: Final = 0x19
LC_ROUTINES_64: Final = 0x1A
LC_UUID: Final = 0x1B
LC_CODE_SIGNATURE: Final = 0x1D
LC_SEGMENT_SPLIT_INFO: Final = 0x1E
LC_LAZY_LOAD_DYLIB: Final = 0x20
LC_ENCRYPTION_INFO: Final = 0x21
LC_VERSION_MIN_MACOSX: Final = 0x24
LC_VERSION_MIN_IPHONEOS: Final = 0x25
LC_FUNCTION_STARTS: Final = 0x26
LC_DATA_IN_CODE: Final = 0x29
LC_DYLIB_CODE_SIGN_DRS: Final = 0x2B
LC_ENCRYPTION_INFO_64: Final = 0x2C
LC_LINKER_OPTIMIZATION_HINT: Final = 0x2E
LC_VERSION_MIN_TVOS: Final = 0x2F
LC_VERSION_MIN_WATCHOS: Final = 0x30
LC_BUILD_VERSION: Final = 0x32
LC_ATOM_INFO: Final = 0x36
LC_FUNCTION_VARIANTS: Final = 0x37
LC_FUNCTION_VARIANT_FIXUPS: Final = 0x38

LC_REQ_DYLD: Final = 0x80000000
LC_LOAD_WEAK_DYLIB: Final = 0x18 | LC_REQ_DYLD
LC_RPATH: Final = 0x1C | LC_REQ_DYLD
LC_REEXPORT_DYLIB: Final = 0x1F | LC_REQ_DYLD
LC_DYLD_INFO: Final = 0x22
LC_DYLD_INFO_ONLY: Final = 0x22 | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB: Final = 0x23 | LC_REQ_DYLD
LC_DYLD_EXPORTS_TRIE: Final = 0x33 | LC_REQ_DYLD
LC_DYLD_CHAINED_FIXUPS: Final = 0x34 | LC_REQ_DYLD

REQUIRED: Final = frozenset(
    LC_REQ_DYLD | number for number in (0x18, 0x1C, 0x1F, 0x22, 0x23, 0x28, 0x33, 0x34, 0x35)
)
"""The commands with that flag that dyld knows; it refuses a file with any other."""
VERSIONS: Final = (
    LC_VERSION_MIN_MACOSX,
    LC_VERSION_MIN_IPHONEOS,
    LC_VERSION_MIN_TVOS,
    LC_VERSION_MIN_WATCHOS,
)

_MOST_BYTES = 16 << 20
"""What is read of all load commands; those of the largest libraries have some ten KiB."""


class Command(NamedTuple):
    """One load command."""

    type: int
    offset: int  # bytes from the start of the slice
    contents: bytes  # with its own head of 8 bytes
    byte_order: str

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """The fields that follow the head; raises MalformedError where the command is shorter."""
        struct = compile_layout(self.byte_order + layout)
        if len(self.contents) < 8 + struct.size:
            raise MalformedError(
                f"load command {self.type:#x} has only {len(self.contents)} bytes", self.offset
            )
        return struct.unpack_from(self.contents, 8)

    def text(self, start: int) -> str:
        """The string at that byte of the command. Raises MalformedError."""
        end = self.contents.find(b"\0", start)
        if start < 8 or end < 0:
            raise MalformedError(
                f"the name of load command {self.type:#x} does not lie in it", self.offset
            )
        return decode(self.contents[start:end])


class Commands:
    """The load commands of one slice, by type."""

    __slots__ = ("_by_type",)

    def __init__(self, commands: Iterable[Command]) -> None:
        self._by_type: dict[int, list[Command]] = {}
        for command in commands:
            self._by_type.setdefault(command.type, []).append(command)

    def find(self, *types: int) -> tuple[Command, ...]:
        """Those of any of the types, in the order of the file."""
        if len(types) == 1:
            return tuple(self._by_type.get(types[0], ()))
        found = [command for each in types for command in self._by_type.get(each, ())]
        return tuple(sorted(found, key=attrgetter("offset")))

    def find_all(self) -> tuple[Command, ...]:
        """Every command, in the order of the file."""
        return self.find(*self._by_type)

    def first(self, *types: int) -> Command | None:
        """The first of any of the types; None when there is none."""
        return next(iter(self.find(*types)), None)


def decode(name: bytes) -> str:
    """Names are UTF-8 by habit only; bytes that are not stay visible as escapes."""
    return name.decode("utf-8", "backslashreplace")


def read_commands(source: Slice, header: MachHeader) -> Commands:
    """Read every load command; types that nobody knows are no fault.

    Raises MalformedError, or TooLarge for more than are read.
    """
    size = header.commands_size
    if header.command_count * 8 > size:
        claim = f"{header.command_count} load commands in {size:#x} bytes"
        raise MalformedError(f"the file claims {claim}", 16)
    source.refuse_more(size, _MOST_BYTES, "bytes of load commands")
    return Commands(_split(source.read(header.commands_offset, size), header))


def _split(table: bytes, header: MachHeader) -> Iterator[Command]:
    head = header.struct("II")
    place = 0
    for number in range(header.command_count):
        at = header.commands_offset + place
        if place + head.size > len(table):
            raise MalformedError(f"load command {number} lies past the end of them all", at)
        kind, size = head.unpack_from(table, place)
        if size < head.size or place + size > len(table):
            raise MalformedError(f"load command {number} claims {size:#x} bytes", at)
        yield Command(kind, at, table[place : place + size], header.byte_order)
        place += size
