"""A fact that remembers the tables which are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Fact = TypeVar("_Fact", bound="Deriving")
_Table = TypeVar("_Table")


@dataclass(frozen=True, kw_only=True, slots=True)
class Deriving:
    """A frozen fact of which other values are made, each once."""

    _derived: dict[Callable[[Any], Any], Any] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def derive(self: _Fact, function: Callable[[_Fact], _Table]) -> _Table:
        """Return the result of a function of the fact, which is called only once.

        A check that is called for each of thousands of objects, and holds it against the others,
        asks for a table of them here.
        """
        if function not in self._derived:
            self._derived[function] = function(self)
        result: _Table = self._derived[function]
        return result
