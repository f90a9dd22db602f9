"""Chooses which entries of an object are decompressed: a few, spread over all of them.

A build has one toolkit, or two with a vendor's archive, and what a tool damages it seldom damages
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from binary_checks.model import DeviceKind
from binary_checks.objects.device.walk import Stored

_SIZE: Final = 16  # entries of each kind in one object
_KINDS: Final = frozenset((DeviceKind.SASS.value, DeviceKind.PTX.value))
_Entry = TypeVar("_Entry")


class SampleCounter:
    """Says of each entry, as it comes along, whether it may belong to the sample of its object.

    How many entries there are is known after the last one. So of the first 32 of a kind every one
    may, of the next 32 every second one, of the next 64 every fourth one, and so on. Those at
    multiples of the last step, 17 to 32 of them, were candidates when they came along, and are
    spread evenly.
    """

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def takes(self, stored: Stored) -> bool:
        """Count all parts of an entry, and say whether one of them is a candidate."""
        found = [self.is_candidate(part.target[0]) for part in stored.parts]
        return any(found)

    def is_candidate(self, kind: str) -> bool:
        """Count a piece of code of a kind, and say whether it is a candidate."""
        if kind not in _KINDS:
            return False
        index = self._met[kind]
        self._met[kind] += 1
        step = 1 << (index // (2 * _SIZE)).bit_length()
        return index % step == 0


class Sample(Generic[_Entry]):
    """The entries of one object that are read, chosen once all were seen."""

    def __init__(self) -> None:
        self._counter = SampleCounter()
        self._candidates: dict[str, list[_Entry]] = {kind: [] for kind in sorted(_KINDS)}

    def add(self, kind: str, entry: _Entry) -> None:
        """Take the next entry; no more than 32 of a kind are kept."""
        if self._counter.is_candidate(kind):
            candidates = self._candidates[kind]
            candidates.append(entry)
            if len(candidates) > 2 * _SIZE:  # the first one of a step that is twice as long
                del candidates[1::2]

    def choose(self) -> Iterator[_Entry]:
        """Up to 16 of each kind, spread evenly over the candidates."""
        for candidates in self._candidates.values():
            count = len(candidates)
            chosen = min(count, _SIZE)
            yield from (candidates[index * count // chosen] for index in range(chosen))
