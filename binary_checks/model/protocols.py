"""What archives and object readers agree on, so that neither knows the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from binary_checks.model.objects import Format, MalformedObject, ObjectFile, UnreadObject


class ByteSource(Protocol):
    """The bytes of one file, wherever they are kept.

    One that streamed by has a ``scout``, who watched it, for the reader that sent it.
    """

    @property
    def size(self) -> int:
        """The whole file's size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""


class Scout(Protocol):
    """Whoever watches a file stream by for ranges that nobody can announce beforehand."""

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece; offsets and bytes, in rising order, that may be asked for."""


class ObjectReader(Protocol):
    """Whoever can read object files out of a byte source (``binary_checks.objects`` does)."""

    def recognise(self, head: bytes) -> Format | None:
        """The format that the first bytes (64 are enough) announce, None for anything else."""

    def announce(self, path: str, head: bytes) -> Format | None:
        """That format, or the one which a loader expects of a file of that name."""

    def retained(self, head: bytes, size: int) -> tuple[tuple[int, int], ...]:
        """The ranges (start, end) of such a file that ``read_objects`` may ask for."""

    def scout(self, head: bytes, size: int) -> Scout | None:
        """A watcher of such a file, None where ``retained`` says all."""

    def read_objects(
        self, path: str, source: ByteSource
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file, each slice of a fat one; never raises for its bytes."""
