"""What every system's loader is asked while objects are loaded, and where it looks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from binary_checks.errors import TooLarge
from binary_checks.loaders.file_layout import FileLayout
from binary_checks.model import ElfFile, ObjectFile, Rule, TargetSystem
from binary_checks.model.linkage import expand

if TYPE_CHECKING:
    from binary_checks.loaders.path_lookup import SearchPath
    from binary_checks.loaders.searches import Searches

ObjectT = TypeVar("ObjectT", bound=ObjectFile)

_MOST_STEPS = 4_000_000
"""What takes some ten seconds; of the largest packages it takes a hundredth of that."""


class Directory(NamedTuple):
    """One directory that a loader looks into."""

    directory: str | None  # relative to the prefix; None where no package can have a file
    rule: Rule  # by which what is found there is found
    absolute: str = ""  # a directory of the user's machine, where that may be the system's own


def places(elements: Iterable[str], rule: Rule, owner: ElfFile) -> tuple[Directory, ...]:
    """Expand the elements of a search path of ``owner``, in order."""
    return tuple(Directory(directory=expand(element, owner), rule=rule) for element in elements)


@dataclass(frozen=True, kw_only=True, slots=True)
class End(Generic[ObjectT]):
    """Where one search ended."""

    resolved: str | None = None
    rule: Rule = Rule.MISSING
    searched: tuple[str, ...] = ()
    library: ObjectT | None = None
    unknown: str = ""  # why it cannot be said whether the library is there
    partly: str = ""  # which of the promised systems alone have it


class Steps:
    """Counts what is done to load a package's objects: a few hundred bytes may ask for hours."""

    def __init__(self, factor: int = 1) -> None:
        self._most, self._taken = factor * _MOST_STEPS, 0

    def count(self, steps: int) -> None:
        """Count so many steps. Raises TooLarge where they are more than are ever taken."""
        self._taken += steps
        if self._taken > self._most:
            raise TooLarge(
                "to load its objects, each in a process of its own with all that it needs, takes "
                f"more than {self._most} steps"
            )


class Loader(Protocol[ObjectT]):
    """How one system's loader names, finds and keeps what it loads."""

    @property
    def layout(self) -> FileLayout[ObjectT]:
        """Where everything lies."""

    @property
    def target(self) -> TargetSystem:
        """The system that it is the loader of."""

    def begin(self, root: ObjectT) -> SearchPath:
        """The places that a process looks into for whatever the loading of the root needs."""

    def hand_down(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """The places for a library's needs and its descendants', those for itself being given."""

    def search(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """The places in which a library's own needs are looked for."""

    def find(self, library: ObjectT, name: str, places: SearchPath) -> End[ObjectT]:
        """What a needed name means to a library with those places."""

    def called(self, name: str) -> str:
        """How a needed name is asked for among what is loaded; "" if by its place alone."""

    def answers_to(self, library: ObjectT, requested: str) -> Iterable[str]:
        """The names, as ``called`` gives them, that a library satisfies once it is loaded."""

    def preloaded(self) -> Mapping[str, str]:
        """What a Python process has from the start: by name, ``system:`` or ``python:`` and it."""

    def presumed(self, library: str) -> tuple[str, ...]:
        """What a system library's symbols begin with, and nobody else's: it has no export data."""

    def brings(self, name: str) -> Iterable[str]:
        """What a library of the system has with it wherever it comes from."""

    @property
    def steps(self) -> Steps:
        """What was done so far."""

    @property
    def searches(self) -> Searches[ObjectT]:
        """What was looked for already."""
