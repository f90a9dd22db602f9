"""Finds where a Mach-O file has its strings."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.objects.macho.commands import LC_SEGMENT, LC_SEGMENT_64, Commands
from binary_checks.objects.macho.header import MachHeader

_S_CSTRING_LITERALS = 2
_SEGMENTS = {LC_SEGMENT: ("16s8I", "32s2I7I"), LC_SEGMENT_64: ("16s4Q4I", "32s2Q8I")}
_HEAD = 8  # bytes of a load command before its own fields


def find_strings(header: MachHeader, commands: Commands) -> Iterator[tuple[int, int]]:
    """Start and end of every section of strings that end with a zero."""
    for command in commands.find(LC_SEGMENT, LC_SEGMENT_64):
        segment, section = _SEGMENTS[command.type]
        step = header.struct(section)
        start = _HEAD + header.struct(segment).size
        count = command.unpack(segment)[-2]
        for number in range(min(count, max(len(command.contents) - start, 0) // step.size)):
            fields = step.unpack_from(command.contents, start + number * step.size)
            _, _, size, offset, _, _, _, flags = fields[:8]
            if flags & 0xFF == _S_CSTRING_LITERALS:
                yield offset, offset + size
