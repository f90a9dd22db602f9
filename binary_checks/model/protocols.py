"""What trees and object readers agree on, so that neither knows the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from binary_checks.model.objects import Format, MalformedObject, ObjectFile, UnreadObject

_ScannerT = TypeVar("_ScannerT")


class ByteSource(Protocol):
    """The bytes of one file, wherever they are kept."""

    @property
    def size(self) -> int:
        """The whole file's size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""


class Scanner(Protocol):
    """Scans a file while it streams by, for what its first bytes cannot tell."""

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece; offsets and bytes, in rising order, that may be asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to let a file stream by that is too large to be kept, by its first bytes.

    The ranges are a guess that is nearly always right: a reader may ask for others all the same.
    """

    ranges: tuple[tuple[int, int], ...] = ()  # (start, end): the bytes to keep
    scanners: tuple[Scanner, ...] = ()  # each is shown every piece, one after the other


@dataclass(frozen=True, slots=True)
class Observations:
    """What the scanners of a plan saw of a file, once all of it has streamed by."""

    scanners: tuple[Scanner, ...] = ()

    def of(self, kind: type[_ScannerT]) -> _ScannerT | None:
        """The scanner of that class; None where none was there, and a reader looks itself."""
        return next((each for each in self.scanners if isinstance(each, kind)), None)


NOTHING_SEEN: Final = Observations()
"""Of a file that can be read anywhere, and need not be scanned beforehand."""


class ObjectReader(Protocol):
    """Reads object files out of a byte source (``binary_checks.objects`` does)."""

    def recognise(self, head: bytes) -> Format | None:
        """The format that the first bytes (64 are enough) announce, None for anything else."""

    def announce(self, path: str, head: bytes) -> Format | None:
        """That format, or the one which a loader expects of a file of that name."""

    def plan(self, head: bytes, size: int) -> Plan:
        """What to keep of a large file, and what scans it; a longer head makes it keep less."""

    def read_objects(
        self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file, each slice of a fat one; never raises for its bytes."""
