"""Refuses what is too much to be read of one file: no fault of it, and not passed over either."""

from __future__ import annotations

from binary_checks.errors import TooLarge
from binary_checks.model.protocols import ByteSource


class LimitedSource:
    """The bytes of one file, with how many times as much as usual is read of it."""

    def __init__(self, source: ByteSource, factor: int = 1) -> None:
        self._source = source
        self.size = source.size
        self.factor = factor

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""
        return self._source.read(offset, length)

    def raised(self, most: int) -> int:
        """How much is read of this file where it is ``most`` as a rule."""
        return most * self.factor

    def refuse_more(self, count: int, most: int, what: str) -> None:
        """Raise TooLarge where the file has more of something than is read."""
        if count > (most := self.raised(most)):
            raise TooLarge(f"it has {count} {what}; at most {most} are read")
