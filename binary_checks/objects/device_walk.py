"""What a walk through device code says on its way: which bytes it needs, and what it found.

Heads lie far apart in sections of hundreds of megabytes, and each tells where the next one is. A
walk asks for bytes and goes on once it is sent them, so that the same walk serves a file that can
be read anywhere and one that streams by.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from binary_checks.model import DeviceCode, DeviceFault, DeviceKind, DeviceTarget


class Ask(NamedTuple):
    """The bytes to be sent next. None lies before the start of what was asked for before."""

    offset: int  # from the start of the file
    length: int


class Container(NamedTuple):
    """One container that was walked through, as far as it holds together."""

    offset: int
    code: tuple[DeviceCode, ...]
    reason: str = ""  # why its targets are not known, or not all


NEAR: Final = 64
"""Bytes asked for at the start of a container, and looked at behind one.

One that begins a section is so kept in the same way as one that was come upon.
"""

Step = Ask | Container | DeviceFault
Walk = Generator[Step, bytes, int]
"""Is sent the bytes that it asks for; returns where what follows begins."""


class Tally:
    """Adds up code by target."""

    def __init__(self) -> None:
        self._sums: dict[DeviceTarget, tuple[int, int, int]] = {}

    def add(self, target: DeviceTarget, count: int, size: int, compressed: int) -> None:
        """Count entries of a target, their bytes, and how many of them are compressed."""
        before = self._sums.get(target, (0, 0, 0))
        self._sums[target] = (before[0] + count, before[1] + size, before[2] + compressed)

    def add_all(self, codes: Iterable[DeviceCode]) -> None:
        """Count what was added up before."""
        for code in codes:
            target = DeviceTarget(kind=code.kind, architecture=code.architecture)
            self.add(target, code.count, code.bytes, code.compressed)

    def codes(self) -> tuple[DeviceCode, ...]:
        """The sums, sorted by kind and architecture."""
        found = (
            DeviceCode(
                kind=target.kind,
                architecture=target.architecture,
                count=count,
                bytes=size,
                compressed=compressed,
            )
            for target, (count, size, compressed) in self._sums.items()
        )
        return tuple(sorted(found))


def unknown(offset: int, reason: str, size: int = 0, compressed: int = 0) -> Container:
    """A container of which nothing is known but that it is there."""
    kind = DeviceKind.UNKNOWN
    code = DeviceCode(kind=kind, architecture="", count=1, bytes=size, compressed=compressed)
    return Container(offset, (code,), reason)


def share(size: int, weights: Iterable[int]) -> list[int]:
    """Split bytes that are compressed together among their parts, by what these unpack to."""
    shares, left = [], size
    parts = list(weights)
    rest = sum(parts)
    for part in parts:
        taken = left * part // rest if rest else 0
        shares.append(taken)
        left, rest = left - taken, rest - part
    return shares
