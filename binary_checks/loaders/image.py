"""Loads one object into a fresh process, as the loader would: breadth first, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from binary_checks.loaders.places import Place
from binary_checks.loaders.searches import Found, Searches
from binary_checks.model import Edge, ElfFile, Kind, Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """What one process has loaded in the end."""

    root: ElfFile
    objects: tuple[ElfFile, ...]  # in load order, the root first
    edges: tuple[Edge, ...]  # of all of them, also of packages beside the judged one; no roots
    system: tuple[str, ...]  # libraries of the system that are in scope
    unread: tuple[str, ...]  # files that were found and of which nothing is known

    @property
    def python(self) -> bool:
        """Whether an interpreter runs in the process, rather than an executable of the package."""
        return self.root.kind is Kind.SHARED


def load(root: ElfFile, searches: Searches) -> Image:
    """Load a root and everything that it needs."""
    return _Process(root, searches).run()


class _Process:
    """A process while things are being loaded into it."""

    def __init__(self, root: ElfFile, searches: Searches) -> None:
        self.root, self.searches = root, searches
        self.layout, self.target, self.rules = searches.layout, searches.target, searches.rules
        preloaded = self.rules.preloaded(self.target.libraries)
        self.system = list(preloaded) if root.kind is Kind.SHARED else []
        self.loaded = {name: f"system:{name}" for name in self.system}  # needed name -> what has it
        self.objects: dict[str, ElfFile] = {}
        self.unread: list[str] = []
        self.edges: list[Edge] = []
        self.queue: deque[tuple[ElfFile, tuple[Place, ...]]] = deque()

    def run(self) -> Image:
        self.add(self.root, "", ())
        while self.queue:
            library, handed = self.queue.popleft()
            for name in dict.fromkeys(dependency.name for dependency in library.needed):
                self.edges.append(self.satisfy(library, name, handed))
        libraries = self.target.libraries
        brought = (other for name in self.system for other in self.rules.brings(name, libraries))
        return Image(
            root=self.root,
            objects=tuple(self.objects.values()),
            edges=tuple(self.edges),
            system=tuple(dict.fromkeys((*self.system, *brought))),
            unread=tuple(dict.fromkeys(self.unread)),
        )

    def add(self, library: ElfFile, requested: str, handed: tuple[Place, ...]) -> None:
        """Map a library; it is searched for its own needs after those mapped before it."""
        self.objects[library.path] = library
        self.queue.append((library, self.rules.hand_down(library, handed)))
        for name in self.rules.names_of(library, requested):
            self.loaded.setdefault(name, self.layout.label(library.path))

    def satisfy(self, library: ElfFile, name: str, handed: tuple[Place, ...]) -> Edge:
        """Find, and if need be load, what a needed name means."""
        found = self.searches.find(library, name, handed)
        edge, loaded = found.edge, self.loaded.get(name)
        if loaded is None:
            self.take(found, name, handed)
        elif loaded != edge.resolved:
            return replace(
                edge, resolved=loaded, rule=Rule.LOADED, shadowed=edge.resolved, elsewhere=()
            )
        return edge

    def take(self, found: Found, name: str, handed: tuple[Place, ...]) -> None:
        resolved, rule = found.edge.resolved, found.edge.rule
        if resolved is None:
            return
        self.loaded[name] = resolved
        if found.library is not None:
            if found.library.path not in self.objects:
                self.add(found.library, name, handed)
        elif rule is Rule.SYSTEM:
            self.system.append(name)
        elif rule is not Rule.PYTHON:
            self.unread.append(resolved)
