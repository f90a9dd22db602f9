"""The bytes of one file: limits on reading them, and byte ranges.

A file that exceeds a limit is not faulty, but must not pass as inspected either: TooLarge is
raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import ByteSource

_SMALL: Final = 1 << 20  # bytes of symbols that any file may have
BLOCK: Final = 1 << 18
"""Bytes searched at a time, which stay in the processor's cache."""


class LimitedSource:
    """The bytes of one file, with a factor on all limits on reading."""

    def __init__(self, source: ByteSource, factor: int = 1) -> None:
        self._source = source
        self.size = source.size
        self.factor = factor
        self._symbols_left = source.size + _SMALL

    def charge_symbol(self, length: int) -> None:
        """Charge the bytes of a symbol. Raises TooLarge if thousands of symbols share bytes."""
        self._symbols_left -= length
        if self._symbols_left < 0:
            raise TooLarge("its symbols overlap: together they are longer than the file")

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``. Raises MalformedError."""
        return self._source.read(offset, length)

    def blocks(self, start: int, end: int, reach: int) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of a range with up to ``reach`` bytes before and after each.

        The number before each is the place of the block in these bytes. A text of up to ``reach``
        bytes that begins or ends among the BLOCK bytes from there on is whole.
        """
        for offset in range(start, end, BLOCK):
            first = max(offset - reach, start)
            yield offset - first, self.read(first, min(offset + BLOCK + reach, end) - first)

    def require_end(self, end: int, what: str) -> None:
        """Raise MalformedError if something that the headers refer to ends after the file."""
        if end > self.size:
            reason = f"{what} at byte {end:#x}, but the file has only {self.size:#x} bytes"
            raise MalformedError(reason, self.size)

    def limit(self, most: int) -> int:
        """Return the limit to apply to this file instead of the default limit ``most``."""
        return most * self.factor

    def require_at_most(self, count: int, most: int, what: str) -> None:
        """Raise TooLarge if ``count`` exceeds the default limit ``most`` times the factor."""
        if count > (most := self.limit(most)):
            raise TooLarge(f"it has {count} {what}; at most {most} are read")


class FilePart(LimitedSource):
    """A part of a file: a slice of a fat file, or a member of an archive."""

    def __init__(self, source: LimitedSource, start: int, size: int, name: str = "") -> None:
        super().__init__(source, source.factor)
        self.start, self.size, self.name = start, size, name

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset`` of the part. Raises MalformedError."""
        if offset < 0 or length < 0 or offset + length > self.size:
            reason = f"{length} bytes are requested, but this part of the file has {self.size}"
            raise MalformedError(reason, offset)
        return self._source.read(self.start + offset, length)


# Byte ranges: (start, end), in bytes from the start of the file, without the byte at ``end``.


def merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sort ranges and join those that touch or overlap; drop empty ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)
