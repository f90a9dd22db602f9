"""The first bytes of a file, for readers that say beforehand what they will ask for."""

from __future__ import annotations

from binary_checks.errors import MalformedError


class Head:
    """The first bytes of a file as a ByteSource that claims the whole file's size."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """The bytes, as long as they are among the first."""
        if offset + length > len(self._head):
            raise MalformedError("not among the first bytes", offset)
        return self._head[offset : offset + length]
