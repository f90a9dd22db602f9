"""Reads the program headers, which say what a loader maps, and where."""

from __future__ import annotations

from typing import Final, NamedTuple

from binary_checks.objects.elf.header import ElfHeader
from binary_checks.objects.limits import LimitedSource

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PT_NOTE: Final = 4
PT_PHDR: Final = 6
PT_TLS: Final = 7
PT_GNU_EH_FRAME: Final = 0x6474E550
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
PT_GNU_PROPERTY: Final = 0x6474E553

PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


def read_segments(source: LimitedSource, header: ElfHeader) -> tuple[Segment, ...]:
    """Read every program header, in order."""
    start, end = header.segments_offset, header.segments_end
    table = source.read(start, end - start)
    if header.bits == 64:
        rows = header.struct("IIQQQQQQ").iter_unpack(table)
        return tuple(Segment(t, f, o, v, fs, ms, a) for t, f, o, v, _, fs, ms, a in rows)
    rows = header.struct("IIIIIIII").iter_unpack(table)
    return tuple(Segment(t, f, o, v, fs, ms, a) for t, o, v, _, fs, ms, f, a in rows)
