"""Lets several scouts watch the same file stream by, and finds the one that a reader sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from binary_checks.model.protocols import Scout

_Kind = TypeVar("_Kind")


class Scouts:
    """Several scouts as one: each piece is seen by all of them, one after the other."""

    def __init__(self, scouts: Iterable[Scout]) -> None:
        self.scouts = tuple(scouts)

    def see(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Take the next piece of the file; yields what each finds worth keeping."""
        for scout in self.scouts:
            yield from scout.see(piece)


def find_scout(source: object, kind: type[_Kind]) -> _Kind | None:
    """The scout of that class who watched a source stream by; None where there was none."""
    scout = getattr(source, "scout", None)
    scouts = scout.scouts if isinstance(scout, Scouts) else (scout,)
    return next((each for each in scouts if isinstance(each, kind)), None)
