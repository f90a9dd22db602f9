"""The form of the tables: one fact in each row, with our value and other libraries' values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binary_checks.model import Format, Kind, ObjectFile

LOADED = frozenset({Kind.SHARED, Kind.EXECUTABLE})


class Fact(NamedTuple):
    """One row of a table. Values are strings, numbers, booleans or lists of strings."""

    name: str
    what: str  # description for the documentation
    # Returns our value for an object; None: the attribute with the fact's name.
    ours: Callable[[Any], Any] | None = None
    # Returns the value in a library's view; None: the attribute with the fact's name.
    theirs: Callable[[Any], Any] | None = None
    kinds: frozenset[Kind] = LOADED  # kinds of objects for which we read the fact

    def of_ours(self, item: ObjectFile) -> Any:
        """Return our value for an object."""
        return getattr(item, self.name) if self.ours is None else self.ours(item)

    def of_theirs(self, view: View) -> Any:
        """Return a library's value."""
        return getattr(view, self.name) if self.theirs is None else self.theirs(view)


@dataclass(kw_only=True)
class View:
    """The contents of a file or a slice as a library reads them, before conversion to facts."""

    name: str = ""  # architecture of the slice
    silent: Mapping[str, str] = field(default_factory=dict)
    """Fact -> why the library cannot know it for this file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """A known difference in a part of a fact; that part is not compared."""

    reason: str
    narrow: Callable[[Any], Any]  # returns the part that is compared, for both sides


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """One library that reads one format."""

    name: str
    distribution: str  # name of the distribution to install
    format: Format
    # Reads the file with this path; returns one view, or one for each slice.
    look: Callable[[str], Sequence[View]]
    unknown: frozenset[str] = frozenset()  # facts that the library does not provide
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    """Fact -> known difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The facts of one format, and the libraries that read the format."""

    facts: tuple[Fact, ...]
    libraries: tuple[Library, ...]

    def list_facts(self, view: View, unknown: Collection[str]) -> dict[str, Any]:
        """Return the facts of a view by name, without ``unknown`` ones.

        The value of a fact that cannot be known for this file is a table with the reason.
        """
        return {
            fact.name: (
                {"silent": view.silent[fact.name]}
                if fact.name in view.silent
                else fact.of_theirs(view)
            )
            for fact in self.facts
            if fact.name not in unknown
        }


class UnparsedError(Exception):
    """Raised if a library returns no object for the file."""

    def __init__(self) -> None:
        super().__init__("it does not parse the file")


def text(name: str | bytes | None) -> str:
    """Return a name as text; bytes that are not UTF-8 are escaped, as in our own facts."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name or ""


def number(value: Any) -> int:
    """Return the number of a LIEF enumeration; values without a name are already numbers."""
    return int(getattr(value, "value", value))


def unique(names: Iterable[str]) -> list[str]:
    """Return the names in order, without duplicates."""
    return list(dict.fromkeys(names))


def keep_ascii(names: list[str]) -> list[str]:
    """Return the names that are ASCII."""
    return [name for name in names if name.isascii()]
