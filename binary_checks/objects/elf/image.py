"""The bytes of an ELF file at the addresses where a loader maps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.elf.header import ElfHeader
from binary_checks.objects.elf.segments import PT_LOAD, Segment
from binary_checks.objects.limits import LimitedSource

_BLOCK = 16 * 1024
"""What is read at once where a table's length is known only by walking it."""
_PAGE = 4096


class MappedImage:
    """The file's bytes by the address they are mapped at; what no segment holds is malformed."""

    __slots__ = ("_block", "_block_start", "_loads", "header", "path", "source")

    def __init__(
        self, path: str, source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        loads = (s for s in segments if s.type == PT_LOAD and s.file_size)
        self._loads = tuple(
            _join((s.address, _mapped_size(s, source.size), s.offset) for s in loads)
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

    def demand(self, address: int, length: int, what: str) -> int:
        """The file offset of an address that so many bytes follow. Raises MalformedError."""
        offset, available = self.locate(address, what)
        if length > available:
            raise MalformedError(
                f"{what} has {length:#x} bytes, its segment only {available:#x} more", offset
            )
        return offset

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Exactly length bytes from the address on, which lie together in the file too.

        Raises MalformedError, or TooLarge for more than ``most``, if that is not 0.
        """
        if not length:
            return b""
        offset = self.demand(address, length, what)
        if 0 < (most := self.source.raised(most)) < length:
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


def _join(loads: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join each (address, size, offset) with the next where that goes on in memory and file.

    patchelf's new first segment ends inside the string table that it moved down (semgrep 1.185.0's
    ``semgrep-core``, which runs): a loader knows no end of a table but that of memory.
    """
    held: tuple[int, int, int] | None = None
    for load in loads:
        if held and held[2] - held[0] == load[2] - load[0] and 0 <= load[0] - held[0] <= held[1]:
            held = (held[0], max(held[1], load[0] - held[0] + load[1]), held[2])
        else:
            if held:
                yield held
            held = load
    if held:
        yield held


def _mapped_size(segment: Segment, size: int) -> int:
    """How many bytes of the file a kernel maps for a segment: whole pages, as mmap does.

    patchelf has left PT_DYNAMIC behind the end of its segment, but in its page (casadi 3.8.2's
    ``clp``, which runs). Where memory goes on after the file's bytes, the rest is zeroed.
    """
    if segment.memory_size > segment.file_size:
        return segment.file_size
    end = -(-(segment.address + segment.file_size) // _PAGE) * _PAGE
    return min(end - segment.address, size - segment.offset)
