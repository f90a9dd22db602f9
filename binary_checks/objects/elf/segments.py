"""Reads the program headers, and the file's bytes at the addresses where a loader maps them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model.protocols import ByteSource
from binary_checks.objects.elf.header import ElfHeader
from binary_checks.objects.limits import raised

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

_BLOCK = 16 * 1024
"""What is read at once where a table's length is known only by walking it."""
_PAGE = 4096


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


def read_segments(source: ByteSource, header: ElfHeader) -> tuple[Segment, ...]:
    """Read every program header, in order."""
    start, end = header.segments_offset, header.segments_end
    table = source.read(start, end - start)
    if header.bits == 64:
        rows = header.struct("IIQQQQQQ").iter_unpack(table)
        return tuple(Segment(t, f, o, v, fs, ms, a) for t, f, o, v, _, fs, ms, a in rows)
    rows = header.struct("IIIIIIII").iter_unpack(table)
    return tuple(Segment(t, f, o, v, fs, ms, a) for t, o, v, _, fs, ms, f, a in rows)


def verify_extent(segments: Iterable[Segment], size: int) -> None:
    """Raise MalformedError for a segment that the file does not hold in full.

    Without this a truncated library reads as one that needs nothing and defines nothing.
    """
    for number, segment in enumerate(segments):
        end = segment.offset + segment.file_size
        if segment.file_size and end > size:
            raise MalformedError(
                f"program header {number} ends at byte {end:#x}, the file has {size:#x} bytes",
                size,
            )
        if segment.type == PT_LOAD and segment.file_size > segment.memory_size:
            raise MalformedError(
                f"program header {number} is larger in the file than in memory", segment.offset
            )


class MappedImage:
    """The file's bytes by the address they are mapped at; what no segment holds is malformed."""

    __slots__ = ("_block", "_block_start", "_loads", "header", "path", "source")

    def __init__(
        self, path: str, source: ByteSource, header: ElfHeader, segments: Iterable[Segment]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        self._loads = tuple(
            (segment.address, _mapped_size(segment, source.size), segment.offset)
            for segment in segments
            if segment.type == PT_LOAD and segment.file_size
        )
        self._block = b""
        self._block_start = 0

    def locate(self, address: int, what: str) -> tuple[int, int]:
        """The file offset of an address, and how many bytes follow it in its segment."""
        for start, size, offset in self._loads:
            distance = address - start
            if 0 <= distance < size:
                return offset + distance, size - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no loaded segment")

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Exactly length bytes from the address on, all of them in one segment.

        Raises MalformedError, or TooLarge for more than ``most``, if that is not 0.
        """
        if not length:
            return b""
        offset, available = self.locate(address, what)
        if length > available:
            raise MalformedError(
                f"{what} has {length:#x} bytes, its segment only {available:#x} more", offset
            )
        if 0 < (most := raised(most)) < length:
            raise TooLarge(f"{what} has {length} bytes; at most {most} are read")
        return self.source.read(offset, length)

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """One small structure; neighbours are read along, so that walking a chain stays cheap."""
        start = address - self._block_start
        if start < 0 or start + layout.size > len(self._block):
            _, available = self.locate(address, what)
            self._block = self.read(address, max(min(available, _BLOCK), layout.size), what)
            self._block_start = address
            start = 0
        return layout.unpack_from(self._block, start)


def _mapped_size(segment: Segment, size: int) -> int:
    """How many bytes of the file a kernel maps for a segment: whole pages, as mmap does.

    patchelf has left PT_DYNAMIC behind the end of its segment, but in its page (casadi 3.8.2's
    ``clp``, which runs). Where memory goes on after the file's bytes, the rest is zeroed.
    """
    if segment.memory_size > segment.file_size:
        return segment.file_size
    end = -(-(segment.address + segment.file_size) // _PAGE) * _PAGE
    return min(end - segment.address, size - segment.offset)
