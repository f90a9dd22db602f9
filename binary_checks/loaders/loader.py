"""What every system's loader is asked while objects are loaded into a process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from binary_checks.loaders.layout import Layout
from binary_checks.loaders.places import Place
from binary_checks.model import Dependency, Edge, ObjectFile, Rule, TargetSystem
from binary_checks.records import dataclass

ObjectT = TypeVar("ObjectT", bound=ObjectFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class End(Generic[ObjectT]):
    """Where one search ended."""

    resolved: str | None = None
    rule: Rule = Rule.MISSING
    searched: tuple[str, ...] = ()
    library: ObjectT | None = None
    unknown: str = ""  # why it cannot be said whether the library is there
    partly: str = ""  # which of the promised systems alone have it


@dataclass(frozen=True, kw_only=True, slots=True)
class Found(Generic[ObjectT]):
    """What one need comes to, as if nothing had been loaded before."""

    edge: Edge  # without a root: any process may ask
    library: ObjectT | None = None


class Loader(Protocol[ObjectT]):
    """How one system's loader names, finds and keeps what it loads."""

    @property
    def layout(self) -> Layout[ObjectT]:
        """Where everything lies."""

    @property
    def target(self) -> TargetSystem:
        """The system that it is the loader of."""

    def begin(self, root: ObjectT) -> tuple[Place, ...]:
        """The places that a process looks into for whatever the loading of the root needs."""

    def hand_down(self, library: ObjectT, handed: tuple[Place, ...]) -> tuple[Place, ...]:
        """The places for a library's needs and its descendants', those for itself being given."""

    def find(self, library: ObjectT, need: Dependency, handed: tuple[Place, ...]) -> Found[ObjectT]:
        """What a need means to a library with those places."""

    def called(self, name: str) -> str:
        """How a needed name is asked for among what is loaded; "" if by its place alone."""

    def answers_to(self, library: ObjectT, requested: str) -> Iterable[str]:
        """The names, as ``called`` gives them, that a library satisfies once it is loaded."""

    def preloaded(self) -> Mapping[str, str]:
        """What a Python process has from the start: by name, ``system:`` or ``python:`` and it."""

    def presumes(self, name: str, library: str) -> bool:
        """Whether a library of the system has a symbol by the look of it, without export data."""

    def brings(self, name: str) -> Iterable[str]:
        """What a library of the system has with it wherever it comes from."""


class Searches(Generic[ObjectT]):
    """Remembers the end of each search: it depends on the places alone, not on the process."""

    def __init__(self, layout: Layout[ObjectT]) -> None:
        self._layout = layout
        self._known: dict[tuple[str, str, Dependency, tuple[Place, ...]], Found[ObjectT]] = {}

    def recall(
        self, library: ObjectT, need: Dependency, handed: tuple[Place, ...]
    ) -> Found[ObjectT] | None:
        """What the same search found before."""
        return self._known.get((library.path, library.architecture, need, handed))

    def remember(
        self,
        library: ObjectT,
        need: Dependency,
        handed: tuple[Place, ...],
        end: End[ObjectT],
    ) -> Found[ObjectT]:
        """Make an edge of where the search ended."""
        layout = self._layout
        edge = Edge(
            path=library.path,
            architecture=library.architecture,
            needed=need.name,
            resolved=end.resolved,
            rule=end.rule,
            searched=end.searched,
            leaves_package=any(map(layout.may_be_shared, end.searched)),
            elsewhere=() if end.resolved else layout.elsewhere(need.name, library),
            weak=need.weak,
            delayed=need.delayed,
            unknown=end.unknown,
            partly=end.partly,
        )
        found = Found(edge=edge, library=end.library)
        self._known[library.path, library.architecture, need, handed] = found
        return found
