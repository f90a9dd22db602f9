"""The form of the tables: one fact in each row, which our reader and other libraries read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binary_checks.model import Kind

LOADED = frozenset({Kind.SHARED, Kind.EXECUTABLE})
Facts = dict[str, Any]
"""What a library reads in a file or a slice, by the names of facts."""


class Fact(NamedTuple):
    """One row of a table. Values are strings, numbers, booleans or lists of strings."""

    name: str
    what: str  # description for the documentation
    # Returns our value for an object; None: the attribute with the fact's name.
    ours: Callable[[Any], Any] | None = None
    kinds: frozenset[Kind] = LOADED  # kinds of objects for which we read the fact


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
    # Reads the file with this path; returns its facts by slice (an architecture; "" for the file).
    look: Callable[[str], Mapping[str, Facts]]
    unknown: frozenset[str] = frozenset()  # facts that the library does not provide
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    """Fact -> known difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The facts of one format, and the libraries that read the format."""

    facts: tuple[Fact, ...]
    libraries: tuple[Library, ...]


class UnparsedError(Exception):
    """Raised if a library returns no object for the file."""


def silent(reason: str) -> dict[str, str]:
    """Return the value of a fact that the library cannot know for this file."""
    return {"silent": reason}


def text(name: str | bytes | None) -> str:
    """Return a name as text; bytes that are not UTF-8 are escaped, as in our own facts."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name or ""


def number(value: Any) -> int:
    """Return the number of a LIEF enumeration; values without a name are already numbers."""
    return int(getattr(value, "value", value))
