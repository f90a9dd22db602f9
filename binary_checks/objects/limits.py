"""Refuses what is too much to be read of one file: no fault of it, and not passed over either."""

from __future__ import annotations

from threading import Lock
from typing import Final

from binary_checks.errors import TooLarge
from binary_checks.model.protocols import ByteSource

_MOST_UNPACKED: Final = 32 << 30  # bytes of one package; cuDNN's engines come to some 6 billion
_MOST_READ: Final = 1 << 30  # bytes of their tables; torch's come to 47 MB


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


class DeviceAllowance:
    """How much of one package's device code is still decompressed and read, by all threads.

    It is charged beforehand: thousands of entries that turn out to be broken at their end take as
    long as healthy ones.
    """

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor  # how many times as much as usual is read
        self._most = self._left = _MOST_UNPACKED * factor
        self._most_read = self._read_left = _MOST_READ * factor
        self._lock = Lock()

    def unpack(self, size: int) -> None:
        """Count bytes that an entry claims to unpack to. Raises TooLarge."""
        with self._lock:
            self._left -= size
            left = self._left
        if left < 0:
            raise TooLarge(f"the package's device code unpacks to more than {self._most} bytes")
        self.go_through(0)

    def go_through(self, size: int) -> None:
        """Count bytes of tables and texts. Raises TooLarge."""
        with self._lock:
            self._read_left -= size
            left = self._read_left
        if left < 0:
            most = self._most_read
            raise TooLarge(f"the package's cubins have more than {most} bytes of names and facts")
