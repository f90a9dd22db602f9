"""Loads one object into a fresh process, as the loader would: breadth first, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Generic

from binary_checks.loaders.loader import Found, Loader, ObjectT
from binary_checks.loaders.places import Place
from binary_checks.model import Dependency, Edge, Kind, Rule
from binary_checks.records import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Image(Generic[ObjectT]):
    """What one process has loaded in the end."""

    root: ObjectT
    objects: tuple[ObjectT, ...]  # in load order, the root first
    edges: tuple[Edge, ...]  # of all of them, also of packages beside the judged one; no roots
    system: tuple[str, ...]  # libraries of the system that are in scope
    unread: tuple[str, ...]  # files that were found and of which nothing is known

    @property
    def python(self) -> bool:
        """Whether an interpreter runs in the process, rather than an executable of the package."""
        return self.root.kind is Kind.SHARED


def load(root: ObjectT, loader: Loader[ObjectT]) -> Image[ObjectT]:
    """Load a root and everything that it needs."""
    return _Process(root, loader).run()


class _Process(Generic[ObjectT]):
    """A process while things are being loaded into it."""

    def __init__(self, root: ObjectT, loader: Loader[ObjectT]) -> None:
        self.root, self.loader = root, loader
        # By the name that it is asked for: what has it.
        self.loaded = dict(loader.preloaded()) if root.kind is Kind.SHARED else {}
        named = (label.partition(":") for label in self.loaded.values())
        self.system = [name for origin, _, name in named if origin == "system"]
        self.objects: dict[str, ObjectT] = {}
        self.unread: list[str] = []
        self.edges: list[Edge] = []
        self.queue: deque[tuple[ObjectT, tuple[Place, ...]]] = deque()

    def run(self) -> Image[ObjectT]:
        self.add(self.root, "", self.loader.begin(self.root))
        while self.queue:
            library, handed = self.queue.popleft()
            for need in _each_once(library):
                self.edges.append(self.satisfy(library, need, handed))
        brought = (other for name in self.system for other in self.loader.brings(name))
        return Image(
            root=self.root,
            objects=tuple(self.objects.values()),
            edges=tuple(self.edges),
            system=tuple(dict.fromkeys((*self.system, *brought))),
            unread=tuple(dict.fromkeys(self.unread)),
        )

    def add(self, library: ObjectT, requested: str, handed: tuple[Place, ...]) -> None:
        """Map a library; it is searched for its own needs after those mapped before it."""
        self.objects[library.path] = library
        self.queue.append((library, self.loader.hand_down(library, handed)))
        for name in self.loader.answers_to(library, requested):
            self.loaded.setdefault(name, self.loader.layout.label(library.path))

    def satisfy(self, library: ObjectT, need: Dependency, handed: tuple[Place, ...]) -> Edge:
        """Find, and if need be load, what a need means."""
        found = self.loader.find(library, need, handed)
        edge, name = found.edge, self.loader.called(need.name)
        loaded = self.loaded.get(name)
        if need.delayed:
            return edge
        if loaded is None:
            self.take(found, name, handed)
        elif loaded != edge.resolved:
            return replace(
                edge,
                resolved=loaded,
                rule=Rule.LOADED,
                shadowed=edge.resolved,
                elsewhere=(),
                unknown="",
            )
        return edge

    def take(self, found: Found[ObjectT], name: str, handed: tuple[Place, ...]) -> None:
        resolved = found.edge.resolved
        if resolved is None:
            return
        if name:
            self.loaded[name] = resolved
        origin, _, system = resolved.partition(":")
        if found.library is not None:
            if found.library.path not in self.objects:
                self.add(found.library, found.edge.needed, handed)
        elif origin == "system":
            self.system.append(system)
        elif origin != "python":
            self.unread.append(resolved)


def _each_once(library: ObjectT) -> tuple[Dependency, ...]:
    """Each needed name once: a need at load counts before one at the first call."""
    needs: dict[str, Dependency] = {}
    for need in sorted(library.needed, key=lambda need: need.delayed):
        needs.setdefault(need.name, need)
    return tuple(needs.values())
