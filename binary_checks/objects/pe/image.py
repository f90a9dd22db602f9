"""The bytes of a PE image at the addresses where a loader maps them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.pe.header import PeHeader
from binary_checks.objects.pe.sections import Section

_SECTOR = 0x200
_PAGE = 0x1000
_BLOCK = 16 * 1024
"""What is read at once where a table's length is known only by walking it."""
_LONGEST_NAME = 4096


class MappedImage:
    """The file's bytes by their address in memory, relative to the image base."""

    __slots__ = (
        "_block", "_block_start", "_maps", "_texts", "_texts_start", "header", "path", "source",
    )  # fmt: skip

    def __init__(
        self, path: str, source: LimitedSource, header: PeHeader, sections: Iterable[Section]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        self._maps = tuple(_map(header, sections, source.size))
        self._block = b""
        self._block_start = 0
        self._texts = b""
        self._texts_start = 0

    def locate(self, address: int, what: str) -> tuple[int, int, int]:
        """File offset of an address, bytes of the file and of memory from there to the end."""
        for start, memory, offset, size in self._maps:
            distance = address - start
            if 0 <= distance < memory:
                return offset + distance, max(size - distance, 0), memory - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no section")

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Exactly length bytes from the address on, all of them in one section.

        Raises MalformedError, or TooLarge for more than ``most``, if that is not 0.
        """
        if not length:
            return b""
        offset, available, memory = self.locate(address, what)
        if length > memory:
            raise MalformedError(
                f"{what} has {length:#x} bytes, its section only {memory:#x} more", offset
            )
        if length > available + _PAGE:  # zeros that nobody wrote: no table is made of them
            raise MalformedError(f"{what} lies in memory that the file does not fill", offset)
        if 0 < (most := self.source.raised(most)) < length:
            raise TooLarge(f"{what}: of {length} bytes at most {most} are read")
        content = self.source.read(offset, min(length, available)) if available else b""
        return content.ljust(length, b"\0")

    def read_some(self, address: int, length: int, what: str) -> bytes:
        """Up to length bytes from the address on, as far as the file fills the section."""
        offset, available, _ = self.locate(address, what)
        return self.source.read(offset, min(length, available)) if available else b""

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """One small structure; neighbours are read along, so that walking a table stays cheap."""
        start = address - self._block_start
        if start < 0 or start + layout.size > len(self._block):
            self._block = self.read_some(address, _BLOCK, what)
            self._block_start, start = address, 0
            if len(self._block) < layout.size:  # its end lies in the zeros behind the contents
                return layout.unpack(self.read(address, layout.size, what))
        return layout.unpack_from(self._block, start)

    def text(self, address: int, what: str) -> str:
        """The zero-terminated name at an address; neighbours are read along.

        Raises MalformedError, or TooLarge for one that is too long.
        """
        start = address - self._texts_start
        end = self._texts.find(b"\0", start) if start >= 0 else -1
        if end < 0:
            self._texts = self.read_some(address, _LONGEST_NAME, what)
            self._texts_start, start = address, 0
            end = self._texts.find(b"\0")
        if end >= 0:
            return decode(self._texts[start:end])
        _, available, memory = self.locate(address, what)
        if len(self._texts) < available:
            reason = f"has more than {_LONGEST_NAME} bytes, none so long is read"
            raise TooLarge(f"{what} at address {address:#x} {reason}")
        if available == memory:
            raise MalformedError(f"{what} at address {address:#x} has no end")
        return decode(self._texts)


def decode(name: bytes) -> str:
    """Names are ASCII by habit only; bytes that are not stay visible as escapes."""
    return name.decode("utf-8", "backslashreplace")


def _map(
    header: PeHeader, sections: Iterable[Section], size: int
) -> Iterable[tuple[int, int, int, int]]:
    """Address, bytes in memory, offset and bytes in the file, of the headers and each section."""
    if header.section_alignment < _PAGE:
        # The whole file is mapped as it lies: addresses are offsets (drivers, tiny programs).
        yield 0, max(header.image_size, size), 0, size
        return
    for section in sections:
        memory = section.virtual_size or section.size
        memory = -(-memory // _PAGE) * _PAGE
        # The loader counts in sectors, and passes over what the offset has beyond one.
        offset = section.offset - section.offset % _SECTOR
        held = min(section.size, memory, size - offset)
        if memory:
            yield section.address, memory, offset, held
    headers = min(header.headers_size, size)
    yield 0, headers, 0, headers
