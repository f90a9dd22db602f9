"""Keeps the names of many symbols as the few stretches of a PE image in which they lie."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from binary_checks.errors import MalformedError
from binary_checks.objects.pe_sections import MappedImage, decode

_GAP = 1 << 16  # bytes between two names that are still read together; no name is longer
_MOST = 1 << 26  # bytes of names in one image: the largest libraries have some megabytes


class Names:
    """Zero-terminated names by address."""

    __slots__ = ("_pieces", "_size", "_starts")

    def __init__(self, image: MappedImage, addresses: Iterable[int], what: str) -> None:
        """Read the names at those addresses. Raises MalformedError where one is not there."""
        self._starts: list[int] = []
        self._pieces: list[bytes] = []
        ordered = sorted(set(addresses))
        first = 0
        for index, address in enumerate(ordered):
            following = ordered[index + 1] if index + 1 < len(ordered) else None
            if following is None or following - address > _GAP:
                self._add(image, ordered[first], address, what)
                first = index + 1
        self._size = sum(map(len, self._pieces))

    def _add(self, image: MappedImage, first: int, last: int, what: str) -> None:
        """Keep what lies from the first name to the end of the last."""
        _, available, _ = image.locate(first, what)
        length = last - first
        if length + sum(map(len, self._pieces)) > _MOST:
            raise MalformedError(f"{what} and others like it take more than {_MOST:#x} bytes")
        if length:
            image.locate(last, what)
        tail = image.read_some(last, 512, what)
        if b"\0" not in tail:
            tail = image.read_some(last, _GAP, what)
        if b"\0" not in tail or length > available:
            raise MalformedError(f"{what} at address {last:#x} has no end in its section")
        self._starts.append(first)
        self._pieces.append(image.read(first, length, what) + tail[: tail.index(b"\0") + 1])

    def decode(self, addresses: array[int]) -> list[str]:
        """The names at those addresses, in order.

        Names may overlap. All those of a real image together are about as long as the stretches
        that hold them; an image made to explode is cut short.
        """
        names: list[str] = []
        budget = 4 * self._size + (1 << 20)
        for address in addresses:
            index = bisect_right(self._starts, address) - 1
            piece, start = self._pieces[index], address - self._starts[index]
            end = piece.index(b"\0", start)
            budget -= end - start
            if budget < 0:
                end = min(end, start + 64)
            names.append(decode(piece[start:end]))
        return names
