"""What the needs of objects come to, found out once however many processes ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Generic

from binary_checks.loaders.loader import End, Loader, ObjectT
from binary_checks.loaders.path_lookup import SearchPath
from binary_checks.model import Dependency, Edge

_OUTSIDE = ("system:", "python:")
_BITS = 4096
"""Names that are told apart by bits: the more there are, the less a process has of them."""


class Answers:
    """What all needs of one object come to; shared by all processes in which that is the same.

    In a package of 800 objects that need each other there are 640,000 edges a process.
    """

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.edges = edges

    @cached_property
    def by_name(self) -> Mapping[str, Edge]:
        """The edges by what is needed."""
        return {edge.needed: edge for edge in self.edges}

    @cached_property
    def resolved(self) -> Mapping[str, str | None]:
        """By what is needed: what it comes to."""
        return {edge.needed: edge.resolved for edge in self.edges}

    @cached_property
    def outside(self) -> tuple[Edge, ...]:
        """Those that lead to nothing, or to the system's libraries or Python's."""
        return tuple(e for e in self.edges if (e.resolved or _OUTSIDE[0]).startswith(_OUTSIDE))

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """What the others lead to: objects of the layout."""
        outside = frozenset(edge.resolved for edge in self.outside)
        found = (edge.resolved for edge in self.edges if edge.resolved not in outside)
        return tuple(dict.fromkeys(label for label in found if label))


class Search(Generic[ObjectT]):
    """The needs of one object, each looked for as if nothing had been loaded before."""

    def __init__(
        self,
        answers: Answers,
        names: tuple[str, ...],
        libraries: tuple[ObjectT | None, ...],
        loaded: int | None,
    ) -> None:
        self.answers = answers
        self.names = names  # by which each is asked for among what is loaded
        self.libraries = libraries  # that each leads to
        self.loaded = loaded
        """What must be loaded for the answers to stand, in bits; None where they cannot tell."""


class Searches(Generic[ObjectT]):
    """Remembers each search: it depends on the places alone, not on the process."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._known: dict[tuple[int, int], Search[ObjectT]] = {}
        self._bits: dict[tuple[str, str], int] = {}

    def bit(self, name: str, label: str) -> int:
        """The bit that says of a process: what has that name in it is that. 0 where it has none."""
        if (name, label) not in self._bits:
            self._bits[name, label] = 1 << len(self._bits) if len(self._bits) < _BITS else 0
        return self._bits[name, label]

    def needs_of(self, library: ObjectT, handed: SearchPath, root: str) -> Search[ObjectT]:
        """What a library needs, with the places that were handed down to it.

        The edges have the root for which they were found first.
        """
        key = (id(library), id(handed))  # to hash an object would be to hash all its symbols
        if key not in self._known:
            self._known[key] = self._search(library, handed, root)
        return self._known[key]

    def _search(self, library: ObjectT, handed: SearchPath, root: str) -> Search[ObjectT]:
        loader = self._loader
        places = loader.search(library, handed)
        edges: list[Edge] = []
        libraries: list[ObjectT | None] = []
        for need in _each_once(library):
            end = loader.find(library, need.name, places)
            edges.append(self._make_edge(library, need, end, root))
            libraries.append(end.library)
        names = tuple(loader.called(edge.needed) for edge in edges)
        loaded = self._sum_up(edges, names)
        return Search(Answers(tuple(edges)), names, tuple(libraries), loaded)

    def _sum_up(self, edges: Iterable[Edge], names: Iterable[str]) -> int | None:
        loaded = 0
        for edge, name in zip(edges, names, strict=True):
            bit = self.bit(name, edge.resolved) if name and edge.resolved else 0
            if not bit and not edge.delayed:
                return None
            loaded |= 0 if edge.delayed else bit
        return loaded

    def _make_edge(self, library: ObjectT, need: Dependency, end: End[ObjectT], root: str) -> Edge:
        layout = self._loader.layout
        return Edge(
            path=library.path,
            architecture=library.architecture,
            needed=need.name,
            resolved=end.resolved,
            rule=end.rule,
            root=root,
            searched=end.searched,
            elsewhere=() if end.resolved else layout.elsewhere(need.name, library),
            weak=need.weak,
            delayed=need.delayed,
            unknown=end.unknown,
            partly=end.partly,
        )


def _each_once(library: ObjectT) -> tuple[Dependency, ...]:
    """Each needed name once: a need at load counts before one at the first call."""
    needs: dict[str, Dependency] = {}
    for need in sorted(library.needed, key=lambda need: need.delayed):
        needs.setdefault(need.name, need)
    return tuple(needs.values())
