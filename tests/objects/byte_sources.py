"""Bytes in memory as a ByteSource."""

from __future__ import annotations

from binary_checks.errors import MalformedError


class Bytes:
    """A ByteSource that records what is read of it."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)
        self.asked: list[tuple[int, int]] = []  # (start, end)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before", offset)
        self.asked.append((offset, offset + length))
        return self._content[offset : offset + length]
