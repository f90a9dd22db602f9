"""Plans which parts of an ELF file to keep and to scan, as far as the first bytes tell."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model.protocols import Plan
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.elf.header import ElfHeader, read_header
from binary_checks.objects.elf.segments import (
    PF_W,
    PF_X,
    PT_GNU_EH_FRAME,
    PT_GNU_RELRO,
    PT_LOAD,
    Segment,
    read_segments,
)
from binary_checks.objects.elf.strings import KEPT_BEHIND, find_name_scanner
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.ranges import Head, complement

_MIB = 1 << 20
_KEPT_OF_TABLES = 32 * _MIB
"""What is kept of a segment that may hold symbol tables: those of libtorch_cpu.so end at 8 MiB."""
_KEPT_OF_CODE = _MIB
_KEPT_OF_TAIL = _MIB
"""What is kept before the section headers: GNU ld and gold put their names there."""
_KEPT_OF_LONG_TAIL = 128 * _MIB
"""LLD puts the symbols' names, which may be many, between the two."""


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Keep tables, and leave out code, code for GPUs, strings and debug information.

    Everything is kept where the first bytes do not tell of the segments.
    """
    source = LimitedSource(Head(head, size), factor)
    try:
        header = read_header(source)
        segments = read_segments(source, header)
    except (MalformedError, Unavailable):
        return Plan(ranges=((0, size),))
    device = DeviceScanner(_find_searched(segments, size), size)
    return Plan(
        ranges=_find_ranges(header, segments, len(head), size),
        scanners=(device, find_name_scanner(header, segments, device, factor)),
    )


def _find_searched(segments: Iterable[Segment], size: int) -> tuple[tuple[int, int], ...]:
    """The ranges in which device code may lie, as far as segments tell."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    # It is mapped and no code of the host, though writable in libcudf.so; a linker that does not
    # separate code has one segment for all.
    apart = [load for load in loads if not load.flags & PF_X or not load.offset]
    return tuple((load.offset, load.offset + load.file_size) for load in apart) or ((0, size),)


def _find_ranges(
    header: ElfHeader, segments: tuple[Segment, ...], read: int, size: int
) -> tuple[tuple[int, int], ...]:
    """All but the inside of large segments, and what no segment maps; tables of both."""
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
    end = max((load.offset + load.file_size for load in loads), default=0)
    kept.append((end, min(end + KEPT_BEHIND, size)))
    kept.append((0, read))  # what the segments were read of
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
