"""Loads one object into a fresh process, as the loader would: breadth first, in order."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic

from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.loaders.path_lookup import SearchPath
from binary_checks.loaders.searches import Answers
from binary_checks.model import Edge, Kind, Rule

_STEPS_OF_AN_OBJECT = 4  # what a process has of it is asked for again when symbols are looked up


@dataclass(frozen=True, kw_only=True, slots=True)
class Image(Generic[ObjectT]):
    """What one process has loaded in the end."""

    root: ObjectT
    objects: tuple[ObjectT, ...]  # in load order, the root first
    answers: tuple[Answers, ...]  # of each of them, also of packages beside the judged one
    system: tuple[str, ...]  # libraries of the system that are in scope
    unread: tuple[str, ...]  # files that were found and of which nothing is known
    loaded: Mapping[str, str]  # by the name that it is asked for: what has it

    @property
    def edges(self) -> Iterator[Edge]:
        """All needs of all objects, in the order in which they were looked for."""
        return (edge for answers in self.answers for edge in answers.edges)

    @property
    def outside(self) -> Iterator[Edge]:
        """Those of the edges that lead to no object of the layout."""
        return (edge for answers in self.answers for edge in answers.outside)

    @property
    def python(self) -> bool:
        """Whether an interpreter runs in the process, rather than an executable of the package."""
        return self.root.kind is Kind.SHARED


def load(
    root: ObjectT, loader: Loader[ObjectT], before: Mapping[str, str] | None = None
) -> Image[ObjectT]:
    """Load a root and everything that it needs.

    ``before`` is what the process has loaded already, as `Image.loaded` has it.
    """
    return _Process(root, loader, before or {}).run()


class _Process(Generic[ObjectT]):
    """A process while things are being loaded into it."""

    def __init__(self, root: ObjectT, loader: Loader[ObjectT], before: Mapping[str, str]) -> None:
        self.root, self.loader, self.before = root, loader, before
        self.loaded: dict[str, str] = {}  # by the name that it is asked for: what has it
        self.bits = 0  # the same, as `Searches.bit` tells it
        self.system: list[str] = []
        self.objects: dict[str, ObjectT] = {}
        self.unread: list[str] = []
        self.answers: list[Answers] = []
        self.queue: deque[tuple[ObjectT, SearchPath]] = deque()

    def run(self) -> Image[ObjectT]:
        if self.root.kind is Kind.SHARED:
            self.begin_as_python()
        self.add(self.root, "", self.loader.begin(self.root))
        while self.queue:
            self.loader.steps.count(_STEPS_OF_AN_OBJECT)
            self.answers.append(self.satisfy(*self.queue.popleft()))
        brought = (other for name in self.system for other in self.loader.brings(name))
        return Image(
            root=self.root,
            objects=tuple(self.objects.values()),
            answers=tuple(self.answers),
            system=tuple(dict.fromkeys((*self.system, *brought))),
            unread=tuple(dict.fromkeys(self.unread)),
            loaded=self.loaded,
        )

    def begin_as_python(self) -> None:
        for name, label in self.loader.preloaded().items():
            self.call(name, label)
            origin, _, library = label.partition(":")
            if origin == "system":
                self.system.append(library)

    def call(self, name: str, label: str) -> None:
        """Let what is loaded go by a name, unless something else does."""
        if self.loaded.setdefault(name, label) is label:
            self.bits |= self.loader.searches.bit(name, label)

    def add(self, library: ObjectT, requested: str, handed: SearchPath) -> None:
        """Map a library; it is searched for its own needs after those mapped before it."""
        self.objects[library.path] = library
        self.queue.append((library, self.loader.hand_down(library, handed)))
        for name in self.loader.answers_to(library, requested):
            self.call(name, self.loader.layout.label(library.path))

    def satisfy(self, library: ObjectT, handed: SearchPath) -> Answers:
        """Find, and if need be load, what the needs of a library mean."""
        search = self.loader.searches.needs_of(library, handed, self.root.path)
        if search.loaded is not None and not search.loaded & ~self.bits:
            return search.answers  # all of it is loaded already, as nearly always
        usual = search.answers.edges
        ends = zip(usual, search.names, search.libraries, strict=True)
        edges = tuple(self.meet(*end, handed) for end in ends)
        return search.answers if all(map(operator.is_, edges, usual)) else Answers(edges)

    def meet(self, edge: Edge, name: str, library: ObjectT | None, handed: SearchPath) -> Edge:
        """Take what a search found, or what has that name already."""
        loaded = self.loaded.get(name)
        if edge.delayed:
            return edge
        first = self.before.get(name) if name else None
        if loaded is None and first is not None:
            architecture = self.root.architecture
            library, loaded = self.loader.layout.fitting(first, architecture), first
            self.take(replace(edge, resolved=first), name, library, handed)
        if loaded is None:
            self.take(edge, name, library, handed)
        elif loaded != edge.resolved:
            return replace(
                edge,
                resolved=loaded,
                rule=Rule.LOADED_FIRST if loaded == first else Rule.LOADED,
                shadowed=edge.resolved,
                elsewhere=(),
                unknown="",
            )
        return edge

    def take(self, edge: Edge, name: str, library: ObjectT | None, handed: SearchPath) -> None:
        if edge.resolved is None:
            return
        if name:
            self.call(name, edge.resolved)
        origin, _, system = edge.resolved.partition(":")
        if library is not None:
            if library.path not in self.objects:
                self.add(library, edge.needed, handed)
        elif origin == "system":
            self.system.append(system)
        elif origin != "python":
            self.unread.append(edge.resolved)
