"""Which parts of an ELF file its reader asks for, as far as the first bytes tell."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.objects.elf.header import read_header
from binary_checks.objects.elf.segments import (
    PF_W,
    PF_X,
    PT_GNU_EH_FRAME,
    PT_GNU_RELRO,
    PT_LOAD,
    Segment,
    read_segments,
)
from binary_checks.objects.head import Head
from binary_checks.objects.ranges import complement

_MIB = 1 << 20
_KEPT_OF_TABLES = 32 * _MIB
"""What is kept of a segment that may hold symbol tables: those of libtorch_cpu.so end at 8 MiB."""
_KEPT_OF_CODE = _MIB
_KEPT_OF_TAIL = _MIB
"""What is kept before the section headers: GNU ld and gold put their names there."""
_KEPT_OF_LONG_TAIL = 128 * _MIB
"""LLD puts the symbols' names, which may be many, between the two."""


def find_ranges(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """All but the inside of large segments, and what no segment maps; tables of both.

    Everything, where the first bytes do not tell of the segments.
    """
    source = Head(head, size)
    try:
        header = read_header(source)
        segments = read_segments(source, header)
    except (MalformedError, Unavailable):
        return ((0, size),)
    loads = sorted((s for s in segments if s.type == PT_LOAD), key=lambda load: load.offset)
    tables = _find_tables(segments, loads)
    tail = _KEPT_OF_LONG_TAIL if _is_from_lld(segments) else _KEPT_OF_TAIL
    skipped = []
    end = 0
    for load in loads:
        # patchelf aligns a segment of its own, and puts it behind what no segment maps.
        skipped.append((end, load.offset - load.alignment - tail))
        length = _KEPT_OF_TABLES if load in tables else _KEPT_OF_CODE if load.flags & PF_X else 0
        end = max(end, load.offset + load.file_size)
        skipped.append((load.offset + length, load.offset + load.file_size))
    if header.sections_offset:
        skipped.append((end if loads else size, header.sections_offset - tail))
    kept = [(s.offset, s.offset + s.file_size) for s in segments if s.type != PT_LOAD]
    kept.append((0, len(head)))
    return complement(skipped, kept, size)


def _find_tables(segments: Iterable[Segment], loads: Iterable[Segment]) -> list[Segment]:
    """The mapped segments that may hold the tables that a loader reads.

    A linker puts them in front: where no code begins there either, constants and what unwinds the
    stack have a segment for themselves. One that does not separate code has one segment for all.
    """
    first_is_code = any(load.flags & PF_X for load in loads if not load.offset)
    unwinding = [segment.offset for segment in segments if segment.type == PT_GNU_EH_FRAME]

    def may_hold(load: Segment) -> bool:
        if not load.offset or load.flags & PF_X:
            return not load.offset
        if load.flags & PF_W or first_is_code:
            return True
        return not any(0 <= place - load.offset < load.file_size for place in unwinding)

    return [load for load in loads if may_hold(load)]


def _is_from_lld(segments: Iterable[Segment]) -> bool:
    """Whether what is read-only after relocation has a segment of its own: others share one."""
    relro = {(s.offset, s.file_size) for s in segments if s.type == PT_GNU_RELRO}
    return any(s.type == PT_LOAD and (s.offset, s.file_size) in relro for s in segments)
