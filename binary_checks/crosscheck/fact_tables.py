"""The form of the tables: one fact a row, what we read of it beside what other libraries read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binary_checks.model import Format, Kind, ObjectFile

LOADED = frozenset({Kind.SHARED, Kind.EXECUTABLE})


class Fact(NamedTuple):
    """One row. Either side is a text, a number, a truth or a list of texts."""

    name: str
    what: str  # what it is, in the documentation
    ours: Callable[[Any], Any] | None = None  # of our object; None: its attribute of that name
    theirs: Callable[[Any], Any] | None = None  # of a library's view; None: the same
    kinds: frozenset[Kind] = LOADED  # of objects of which we read it

    def of_ours(self, item: ObjectFile) -> Any:
        """What we read in an object."""
        return getattr(item, self.name) if self.ours is None else self.ours(item)

    def of_theirs(self, view: View) -> Any:
        """What a library reads."""
        return getattr(view, self.name) if self.theirs is None else self.theirs(view)


@dataclass(kw_only=True)
class View:
    """What a library sees of a file, or of a slice of it, before it is spelled as facts."""

    name: str = ""  # of the slice
    silent: Mapping[str, str] = field(default_factory=dict)
    """By fact, why the library cannot know it of this file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """What a library is known to say otherwise in a part of a fact, which is not compared."""

    reason: str
    narrow: Callable[[Any], Any]  # what is compared of either side's fact


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """One library that reads one format."""

    name: str
    distribution: str  # to install
    format: Format
    look: Callable[[str], Sequence[View]]  # at the file of that path: one view, or one a slice
    unknown: frozenset[str] = frozenset()  # facts that it has no word for
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    """Facts that it is known to get wrong in part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The facts of one format, and the libraries that read it."""

    facts: tuple[Fact, ...]
    libraries: tuple[Library, ...]

    def spell(self, view: View, unknown: Collection[str]) -> dict[str, Any]:
        """The facts of a view by name, but those that are unknown; or why one cannot be known."""
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
    """The library gives no object for the file."""


def unparsed() -> UnparsedError:
    """What to raise where a library answers with nothing."""
    return UnparsedError("it does not parse the file")


def text(name: str | bytes | None) -> str:
    """The text of a name; bytes that are not UTF-8 stay visible as escapes, as in our own."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name or ""


def number(value: Any) -> int:
    """The number of LIEF's enumerations, which leaves one without a name a number."""
    return int(getattr(value, "value", value))


def unique(names: Iterable[str]) -> list[str]:
    """Each name once, in the order in which they come."""
    return list(dict.fromkeys(names))


def keep_ascii(names: list[str]) -> list[str]:
    """The names that are ASCII."""
    return [name for name in names if name.isascii()]
