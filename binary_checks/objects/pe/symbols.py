"""A table of PE symbols that keeps numbers and makes names and symbols when somebody asks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from binary_checks.model import Symbol, SymbolTable


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
