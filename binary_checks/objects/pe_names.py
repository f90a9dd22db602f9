"""Keeps the names of many symbols as the few stretches of a PE image in which they lie."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import sub

from binary_checks.errors import MalformedError
from binary_checks.objects.pe_sections import MappedImage, decode

_GAP = 1 << 16  # bytes between two names that are still read together; no name is longer
_TAIL = 512
_LONGEST_FORWARDER = 1024
_SHORT = 64
_MOST = 1 << 26  # bytes of names in one image: the largest libraries have some megabytes


class Names:
    """Zero-terminated names by address."""

    __slots__ = ("_pieces", "_size", "_starts")

    def __init__(self, image: MappedImage, addresses: Iterable[int], what: str) -> None:
        """Read the names at those addresses. Raises MalformedError where one is not there."""
        self._starts: list[int] = []
        self._pieces: list[bytes] = []
        self._size = 0
        for first, last in _find_stretches(image, sorted(set(addresses)), what):
            self._add(image, first, last, what)
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def _add(self, image: MappedImage, first: int, last: int, what: str) -> None:
        """Keep what lies from the first name to the end of the last."""
        tail = image.read_some(last, _TAIL, what)
        if b"\0" not in tail:
            tail = image.read_some(last, _GAP, what)
        if b"\0" not in tail:
            raise MalformedError(f"{what} at address {last:#x} has no end in its section")
        self._size += last - first
        if self._size > _MOST:
            raise MalformedError(f"{what} and others like it take more than {_MOST:#x} bytes")
        self._starts.append(first)
        self._pieces.append(image.read(first, last - first, what) + tail[: tail.index(b"\0") + 1])

    def decode(self, addresses: array[int]) -> list[str]:
        """The names at those addresses, in order.

        Names may overlap. All those of a real image together are about as long as the stretches
        that hold them; an image made to explode is cut short.
        """
        names: list[bytes] = []
        budget, longest = 4 * self._size + (1 << 20), _GAP
        piece, first, end = b"", 0, 0  # the stretch in which the last name was
        for address in addresses:
            if not first <= address < end:
                piece, first = self._stretch_of(address)
                end = first + len(piece)
            start = address - first
            stop = piece.find(0, start, start + longest)
            name = piece[start : stop if stop >= 0 else start + longest]
            names.append(name)
            budget -= len(name)
            if budget < 0:
                longest = _SHORT
        return decode(b"\0".join(names)).split("\0") if names else []

    def decode_one(self, address: int) -> str:
        """The name at one address, cut short where it is absurd."""
        piece, first = self._stretch_of(address)
        start = address - first
        return decode(piece[start : start + _LONGEST_FORWARDER].partition(b"\0")[0])

    def _stretch_of(self, address: int) -> tuple[bytes, int]:
        """The bytes among which an address is, and where they begin."""
        index = bisect_right(self._starts, address) - 1
        return self._pieces[index], self._starts[index]


def _find_stretches(
    image: MappedImage, addresses: Sequence[int], what: str
) -> Iterator[tuple[int, int]]:
    """The first and the last name of each stretch, which lies in one section and has no gaps."""
    gaps = map(sub, addresses[1:], addresses)
    first = 0
    for stop in (*(n for n, gap in enumerate(gaps, 1) if gap > _GAP), len(addresses)):
        while first < stop:
            end = addresses[first] + image.locate(addresses[first], what)[1]
            following = bisect_left(addresses, end, first + 1, stop)
            yield addresses[first], addresses[following - 1]
            first = following
