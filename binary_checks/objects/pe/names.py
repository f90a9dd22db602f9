"""Keeps the symbols of a PE image as numbers, and their names as the few stretches they lie in.

Names and symbols are made of them when somebody asks.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import sub

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import Symbol, SymbolTable
from binary_checks.objects.pe.image import MappedImage, decode

_GAP = 1 << 16  # bytes between two names that are still read together; none that is longer is read
_TAIL = 512
_LONGEST_FORWARDER = 1024
_MOST = 1 << 26  # bytes of names in one image: the largest libraries have some megabytes


class NameStretches:
    """Zero-terminated names by address."""

    __slots__ = ("_size", "_starts", "_texts", "_what")

    def __init__(
        self, image: MappedImage, addresses: Iterable[int], what: str, *, skip: int = 0
    ) -> None:
        """Read the names at those addresses, or ``skip`` bytes behind each.

        Raises MalformedError where one is not there, TooLarge where they are too long.
        """
        self._what = f"{what} in {image.path}"  # for who asks later, and may not know of whom
        self._starts: list[int] = []  # what addresses count from, stretch by stretch
        self._texts: list[str] = []  # a character is a byte
        self._size = 0
        for first, last in _find_stretches(image, sorted(addresses), skip, what):
            self._starts.append(first)
            self._texts.append(self._read(image, first + skip, last + skip, what))
        self._size = sum(map(len, self._texts))

    def __len__(self) -> int:
        return self._size

    def _read(self, image: MappedImage, first: int, last: int, what: str) -> str:
        """What lies from the first name to the end of the last."""
        tail = image.read_some(last, _TAIL, what)
        if b"\0" not in tail:
            tail = image.read_some(last, _GAP, what)
        if b"\0" not in tail:
            if len(tail) == _GAP:
                raise _too_long(f"{what} at address {last:#x}", _GAP)
            raise MalformedError(f"{what} at address {last:#x} has no end in its section")
        self._size += last - first
        if self._size > (most := image.source.raised(_MOST)):
            reason = f"take {self._size} bytes; at most {most} are read"
            raise TooLarge(f"{what} and others like it {reason}")
        piece = image.read(first, last - first, what) + tail[: tail.index(b"\0") + 1]
        return piece.decode("latin-1")

    def decode(self, addresses: Iterable[int]) -> list[str]:
        """The names at those addresses, in order.

        Names may overlap. All those of a real image together are about as long as the stretches
        that hold them. Raises TooLarge for an image made to explode.
        """
        names: list[str] = []
        most = budget = 4 * self._size + (1 << 20)
        for stretch, group in self._group(addresses):
            text, start, left = self._texts[stretch], self._starts[stretch], iter(group)
            fitting = 1 + budget // min(len(text), _GAP)  # whatever their lengths are
            while portion := [address - start for address in islice(left, fitting)]:
                found = self._cut(text, portion, _GAP)
                names += found
                budget -= len("".join(found))
                if budget < 0:
                    reason = f"have more than {most} bytes together, no more are read"
                    raise TooLarge(f"{self._what} and others like it {reason}")
        return names

    def _group(self, addresses: Iterable[int]) -> Iterable[tuple[int, Iterable[int]]]:
        """Addresses in order, those that follow one another in a stretch together."""
        if len(self._texts) == 1:
            return ((0, addresses),)
        return groupby(addresses, self._find)

    def decode_one(self, address: int) -> str:
        """The name at one address. Raises TooLarge for one that is absurdly long."""
        stretch = self._find(address)
        start = address - self._starts[stretch]
        return self._cut(self._texts[stretch], [start], _LONGEST_FORWARDER)[0]

    def _find(self, address: int) -> int:
        """The stretch in which an address is."""
        return bisect_right(self._starts, address) - 1

    def _cut(self, text: str, places: Iterable[int], longest: int) -> list[str]:
        """The names at those places of a stretch. Raises TooLarge for a longer one."""
        find = text.find
        if len(text) <= longest:
            names = [text[start : find("\0", start)] for start in places]
        else:
            ends = [(start, find("\0", start, start + longest)) for start in places]
            if any(end < 0 for _, end in ends):
                raise _too_long(self._what, longest)
            names = [text[start:end] for start, end in ends]
        if "".join(names).isascii():  # as names are; the hints before them need not be
            return names
        return [decode(name.encode("latin-1")) for name in names]


def _too_long(what: str, longest: int) -> TooLarge:
    return TooLarge(f"{what} has more than {longest} bytes, none so long is read")


def _find_stretches(
    image: MappedImage, addresses: Sequence[int], skip: int, what: str
) -> Iterator[tuple[int, int]]:
    """The first and the last name of each stretch, which lies in one section and has no gaps."""
    stops = [len(addresses)] if addresses else []
    if addresses and addresses[-1] - addresses[0] > _GAP:
        gaps = map(sub, addresses[1:], addresses)
        stops[:0] = (number for number, gap in enumerate(gaps, 1) if gap > _GAP)
    first = 0
    for stop in stops:
        while first < stop:
            start = addresses[first]
            end = start + image.locate(start + skip, what)[1]
            following = bisect_left(addresses, end, first + 1, stop)
            yield start, addresses[following - 1]
            first = following


class PeSymbolTable(SymbolTable):
    """One side of an image's symbols, each known by its position."""

    __slots__ = ("_names", "_positions", "_set")

    def __init__(self) -> None:
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._positions: dict[str, list[int]] | None = None

    @abstractmethod
    def _decode_names(self) -> list[str]:
        """The name of each symbol, by position; ``#5`` for what has an ordinal only."""

    @abstractmethod
    def _make(self, position: int, name: str) -> Symbol:
        """The symbol at a position."""

    def _aliases(self, position: int) -> Iterable[str]:  # noqa: ARG002 - for those that have some
        """What else the symbol is found by."""
        return ()

    @property
    def names(self) -> frozenset[str]:
        """Every name once; ``#5`` for what has an ordinal only."""
        if self._set is None:
            self._set = frozenset(self._all_names())
        return self._set

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name."""
        if self._positions is None:
            self._positions = {}
            for position, known in enumerate(self._all_names()):
                for each in (known, *self._aliases(position)):
                    self._positions.setdefault(each, []).append(position)
        names = self._all_names()
        return tuple(self._make(each, names[each]) for each in self._positions.get(name, ()))

    def __iter__(self) -> Iterator[Symbol]:
        return (self._make(position, name) for position, name in enumerate(self._all_names()))

    def __repr__(self) -> str:
        return f"<{len(self)} symbols>"

    def _all_names(self) -> list[str]:
        if self._names is None:
            self._names = self._decode_names()
        return self._names
