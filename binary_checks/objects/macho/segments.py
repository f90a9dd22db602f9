"""Reads the segments of a Mach-O file and the sections in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.macho.commands import LC_SEGMENT, LC_SEGMENT_64, Command, Commands
from binary_checks.objects.macho.header import MachHeader

_LAYOUTS = {LC_SEGMENT: ("16s8I", "32s2I7I"), LC_SEGMENT_64: ("16s4Q4I", "32s2Q8I")}
_HEAD = 8  # bytes of a load command before its own fields
_ZERO_FILLED = frozenset({0x1, 0xC, 0x12})  # S_ZEROFILL, _GB_ZEROFILL, _THREAD_LOCAL_ZEROFILL


class MachSection(NamedTuple):
    """One section."""

    name: str
    segment: str  # that it says it is of
    address: int
    size: int
    offset: int  # in the slice
    flags: int
    relocations: int  # how many, or where

    @property
    def is_filled(self) -> bool:
        """Whether the file holds its contents."""
        return self.flags & 0xFF not in _ZERO_FILLED


class Segment(NamedTuple):
    """One segment."""

    name: str
    address: int
    memory: int  # bytes
    offset: int  # in the slice
    size: int  # in the file
    protection: int  # at the start: 1 to read, 2 to write, 4 to run
    sections: tuple[MachSection, ...]
    wide: bool  # LC_SEGMENT_64
    command: Command


def read_segments(header: MachHeader, commands: Commands) -> tuple[Segment, ...]:
    """Every segment, in order. Raises MalformedError where the sections do not fit."""
    return tuple(
        _read_segment(header, command) for command in commands.find(LC_SEGMENT, LC_SEGMENT_64)
    )


def _read_segment(header: MachHeader, command: Command) -> Segment:
    layout, _ = _LAYOUTS[command.type]
    name, address, memory, offset, size, _, protection, count, _ = command.unpack(layout)
    sections = tuple(_read_sections(header, command, count))
    wide = command.type == LC_SEGMENT_64
    spelled = _spell(name)
    return Segment(spelled, address, memory, offset, size, protection, sections, wide, command)


def _read_sections(header: MachHeader, command: Command, count: int) -> Iterator[MachSection]:
    segment, section = (header.struct(layout) for layout in _LAYOUTS[command.type])
    start = _HEAD + segment.size
    if start + count * section.size != len(command.contents):
        room = f"{len(command.contents):#x} bytes"
        raise MalformedError(f"a segment of {count} sections takes {room}", command.offset)
    for fields in section.iter_unpack(command.contents[start:]):
        names, address, size, offset, _, relocations, count, flags = fields[:8]
        yield MachSection(
            _spell(names[:16]),
            _spell(names[16:]),
            address,
            size,
            offset,
            flags,
            relocations | count,
        )


def _spell(name: bytes) -> str:
    return name.partition(b"\0")[0].decode("ascii", "backslashreplace")
