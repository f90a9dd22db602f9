"""What an expression of Python code may be: several values at once, somebody else's, or unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import product
from pathlib import PureWindowsPath

from binary_checks.records import dataclass

_MOST_VALUES = 32  # of one expression
_LONGEST = 4096  # characters of one text
MOST_ITEMS = 256  # of one list


class TooMuchError(Exception):
    """The code takes more steps than are taken here."""


class Mark(Enum):
    """What is said of a value that is not known."""

    UNKNOWN = "only running the code tells"
    FOREIGN = "the user's or another package's, whatever it is: an environment variable, PATH"


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """Some file of that directory."""

    directory: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dotted:
    """A module, or what is found in it, by its full name: ``os.path.join``."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """A list, a tuple or a set; not exact where only its possible elements are known."""

    values: tuple[Values, ...] = ()
    exact: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A method of a known value, not called yet."""

    of: object
    name: str


class Scope:
    """The names of a module or of a call."""

    __slots__ = ("names", "outer", "returned", "shared", "yielded")

    def __init__(self, names: dict[str, Values], outer: Scope | None = None) -> None:
        self.names = names
        self.outer = outer
        self.shared: frozenset[str] = frozenset()  # those declared global or nonlocal
        self.returned: Values = frozenset()
        self.yielded: Values | None = None


class Function:
    """A function of the file itself."""

    __slots__ = ("node", "scope")

    def __init__(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope
    ) -> None:
        self.node = node
        self.scope = scope  # in which it was defined


Values = frozenset[object]
UNKNOWN: Values = frozenset({Mark.UNKNOWN})
FOREIGN: Values = frozenset({Mark.FOREIGN})
NONE: Values = frozenset({None})


def known(*values: object) -> Values:
    """One of these values."""
    return frozenset(values)


def unite(many: Iterable[Values]) -> Values:
    """One of all of these; unknown where they are too many."""
    union: Values = frozenset().union(*many)
    return union if len(union) <= _MOST_VALUES else UNKNOWN


def combine(function: Callable[..., object], *arguments: Values) -> Values:
    """Apply a pure function to every combination of the arguments' values."""
    count = 1
    for values in arguments:
        count *= len(values)
    if count > _MOST_VALUES:
        return UNKNOWN
    return frozenset(_apply(function, combination) for combination in product(*arguments))


def _apply(function: Callable[..., object], arguments: tuple[object, ...]) -> object:
    for mark in (Mark.UNKNOWN, Mark.FOREIGN):
        if mark in arguments:
            return mark
    try:
        result = function(*arguments)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        return Mark.UNKNOWN
    if isinstance(result, (str, PureWindowsPath)) and len(str(result)) > _LONGEST:
        return Mark.UNKNOWN
    return result


def elements(values: Values) -> Values:
    """What iterating over the values may give."""
    return unite(map(_elements_of, values))


def _elements_of(value: object) -> Values:
    if isinstance(value, Items):
        return unite(value.values)
    return known(value) if isinstance(value, Mark) else UNKNOWN


def gather(values: Values) -> Values:
    """A list in which any of these may be."""
    return known(Items(values=(values,) if values else (), exact=False))


def extend(values: Values, more: Values) -> Values:
    """Lists to each of which an element has been added."""

    def add(items: object) -> object:
        if not isinstance(items, Items):
            return items
        if any(more <= there for there in items.values):
            return Items(values=items.values, exact=False)
        if len(items.values) >= MOST_ITEMS:
            return Items(values=(UNKNOWN,), exact=False)
        return Items(values=(*items.values, more), exact=items.exact)

    return frozenset(map(add, values))


def truth(values: Values) -> bool | None:
    """Whether a condition holds, None where both may be."""
    found = {_truth_of(value) for value in values}
    return found.pop() if len(found) == 1 else None


def _truth_of(value: object) -> bool | None:
    if isinstance(value, (Mark, Within, Dotted)):
        return None
    if isinstance(value, Items):
        return bool(value.values) if value.exact else None
    return bool(value) if isinstance(value, (str, int, type(None))) else True
