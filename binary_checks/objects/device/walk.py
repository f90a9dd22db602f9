"""What a walk through device code says on its way: which bytes it needs, and what it found.

Heads lie far apart in sections of hundreds of megabytes, and each tells where the next one is. A
walk asks for bytes and goes on once it is sent them, so that the same walk serves a file that can
be read anywhere and one that streams by.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from binary_checks.model import DeviceFault, DeviceKind


class Ask(NamedTuple):
    """The bytes to be sent next. None lies before the start of what was asked for before."""

    offset: int  # from the start of the file
    length: int


Target = tuple[str, str]
"""The kind and the architecture of a DeviceTarget: plain, since large libraries have thousands."""
UNKNOWN: Final[Target] = (DeviceKind.UNKNOWN.value, "")


class Sum(NamedTuple):
    """Code for one target, added up."""

    target: Target
    entries: int
    bytes: int
    compressed: int  # of the entries


class Container(NamedTuple):
    """One container that was walked through, as far as it holds together."""

    offset: int
    sums: tuple[Sum, ...]  # sorted by target, each once
    reason: str = ""  # why its targets are not known, or not all
    too_large: bool = False  # for it has more of something than is read


class Part(NamedTuple):
    """One piece of code among the bytes that an entry unpacks to."""

    target: Target
    start: int  # in these bytes
    size: int | None  # None: all of them


class Stored(NamedTuple):
    """An entry of a CUDA container: where its bytes lie, and what they unpack to."""

    offset: int  # of its head, from the start of the file
    start: int  # of its bytes
    size: int  # of them, without what pads them
    flags: int
    unpacked_size: int | None  # that its head states; None where nothing compressed it
    parts: tuple[Part, ...]  # more than one where several are compressed together


class Rest(NamedTuple):
    """What was not walked through, for a reason that is not the file's."""

    offset: int  # from the start of the file, up to the end of the device code
    reason: str
    too_large: bool = False  # for there is more of something than is read


NEAR: Final = 64
"""Bytes asked for at the start of a container, and looked at behind one.

One that begins a section is so kept in the same way as one that was come upon.
"""

Step = Ask | Stored | Container | Rest | DeviceFault
Walk = Generator[Step, bytes, int]
"""Is sent the bytes that it asks for; returns where what follows begins."""
ContainerWalk = Generator[Step, bytes, tuple[int, bool]]
"""The same through one container; returns too whether it is certain that what follows begins there.

It is not where the container is of a format that is not known, or at fault.
"""


class Tally:
    """Adds up code by target."""

    def __init__(self) -> None:
        self._sums: dict[Target, tuple[int, int, int]] = {}

    def add(self, target: Target, count: int, size: int, compressed: int) -> None:
        """Count entries of a target, their bytes, and how many of them are compressed."""
        before = self._sums.get(target, (0, 0, 0))
        self._sums[target] = (before[0] + count, before[1] + size, before[2] + compressed)

    def sums(self) -> tuple[Sum, ...]:
        """What was added up, sorted by kind and architecture."""
        return tuple(Sum(target, *sums) for target, sums in sorted(self._sums.items()))


def unknown(offset: int, reason: str) -> Container:
    """A container of which nothing is known but that it is there."""
    return Container(offset, (Sum(UNKNOWN, 1, 0, 0),), reason)


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
