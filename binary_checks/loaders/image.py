"""Loads one object into a fresh process, as the loader would: breadth first, in order."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from binary_checks.loaders.layout import Layout
from binary_checks.loaders.places import Place
from binary_checks.model import Edge, ElfFile, Kind, Rule, TargetSystem
from binary_checks.model.search_path import expand

_LIBPYTHON = re.compile(r"libpython3(?:\.(?P<minor>\d+)(?P<flags>[a-z]*))?\.so(?:\.1\.0)?")


class LoaderRules(Protocol):
    """What glibc's and musl's loaders differ in; the modules of these names say it."""

    @property
    def SKIPS_FOREIGN_FILES(self) -> bool:  # noqa: N802
        """Whether a file of another architecture is passed over."""

    @property
    def CHECKS_VERSIONS(self) -> bool:  # noqa: N802
        """Whether symbol versions count."""

    def hand_down(self, library: ElfFile, handed: tuple[Place, ...]) -> tuple[Place, ...]:
        """The places that a library's descendants inherit."""

    def search(self, library: ElfFile, handed: tuple[Place, ...]) -> tuple[Place, ...]:
        """The places for the library's own needs."""

    def names_of(self, library: ElfFile, requested: str) -> frozenset[str]:
        """The needed names that the library satisfies once it is loaded."""

    def preloaded(self, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a Python process has from the start."""

    def brings(self, name: str, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a library of the system has with it."""

    def answers_itself(self, name: str) -> bool:
        """Whether the loader takes itself for that library."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """What one process has loaded in the end."""

    root: ElfFile
    objects: tuple[ElfFile, ...]  # in load order, the root first
    edges: tuple[Edge, ...]  # of all of them, those of packages beside the judged one too
    system: tuple[str, ...]  # libraries of the system that are in scope
    unread: tuple[str, ...]  # files that were found and of which nothing is known

    @property
    def python(self) -> bool:
        """Whether an interpreter runs in the process, rather than an executable of the package."""
        return self.root.kind is Kind.SHARED


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """The end of one search."""

    resolved: str | None
    rule: Rule
    searched: tuple[str, ...] = ()
    library: ElfFile | None = None


def load(root: ElfFile, layout: Layout, target: TargetSystem, rules: LoaderRules) -> Image:
    """Load a root and everything that it needs."""
    return _Process(root, layout, target, rules).run()


class _Process:
    """A process while things are being loaded into it."""

    def __init__(
        self, root: ElfFile, layout: Layout, target: TargetSystem, rules: LoaderRules
    ) -> None:
        self.root, self.layout, self.target, self.rules = root, layout, target, rules
        self.system = list(rules.preloaded(target.libraries)) if root.kind is Kind.SHARED else []
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
        found = self.look_for(library, name, self.rules.search(library, handed))
        loaded, shadowed, rule = self.loaded.get(name), None, found.rule
        if loaded is None:
            self.take(found, name, handed)
        elif loaded != found.resolved:
            shadowed, rule = found.resolved, Rule.LOADED
        resolved = loaded or found.resolved
        return Edge(
            path=library.path,
            architecture=library.architecture,
            needed=name,
            resolved=resolved,
            rule=rule,
            root=self.root.path,
            searched=found.searched,
            leaves_package=any(map(self.layout.may_be_shared, found.searched)),
            elsewhere=() if resolved else self.layout.elsewhere(name, library),
            shadowed=shadowed,
        )

    def take(self, found: _Found, name: str, handed: tuple[Place, ...]) -> None:
        if found.resolved is None:
            return
        self.loaded[name] = found.resolved
        if found.library is not None:
            if found.library.path not in self.objects:
                self.add(found.library, name, handed)
        elif found.rule is Rule.SYSTEM:
            self.system.append(name)
        elif found.rule is not Rule.PYTHON:
            self.unread.append(found.resolved)

    def look_for(self, library: ElfFile, name: str, places: tuple[Place, ...]) -> _Found:
        """Search as if nothing were loaded yet."""
        if self.rules.answers_itself(name):
            return _Found(resolved=f"system:{name}", rule=Rule.SYSTEM)
        if "/" in name:
            return self.open(library, name)
        searched: dict[str, None] = {}
        for place in places:
            if place.directory is None or place.directory in searched:
                continue
            searched[place.directory] = None
            files = self.layout.find(place.directory, name)
            fitting = next((f for f in files if f.architecture == library.architecture), None)
            if fitting or self.layout.is_unread(place.directory, name):
                path = fitting.path if fitting else f"{place.directory}/{name}".lstrip("/")
                return _Found(
                    resolved=self.layout.label(path),
                    rule=place.rule,
                    searched=tuple(searched),
                    library=fitting,
                )
            if files and not self.rules.SKIPS_FOREIGN_FILES:
                return _Found(resolved=None, rule=Rule.MISSING, searched=tuple(searched))
        return self.ask_system(library, name, tuple(searched))

    def open(self, library: ElfFile, name: str) -> _Found:
        """Take a needed name with a slash as a path: from $ORIGIN, else from the user's cwd."""
        folder, _, file_name = name.rpartition("/")
        directory = expand(folder, library)
        files = self.layout.find(directory, file_name) if directory is not None else ()
        fitting = next((f for f in files if f.architecture == library.architecture), None)
        if fitting is None:
            return _Found(resolved=None, rule=Rule.MISSING)
        return _Found(resolved=self.layout.label(fitting.path), rule=Rule.PATH, library=fitting)

    def ask_system(self, library: ElfFile, name: str, searched: tuple[str, ...]) -> _Found:
        """What neither the package nor those beside it have, the platform or Python may."""
        if name in self.target.libraries and not library.no_default_libraries:
            return _Found(resolved=f"system:{name}", rule=Rule.SYSTEM, searched=searched)
        if _is_interpreters(name, self.target):
            return _Found(resolved=f"python:{name}", rule=Rule.PYTHON, searched=searched)
        return _Found(resolved=None, rule=Rule.MISSING, searched=searched)


def _is_interpreters(name: str, target: TargetSystem) -> bool:
    """Whether the name is that of the target's own libpython."""
    match = _LIBPYTHON.fullmatch(name)
    if match is None or match["minor"] is None or target.interpreter is None:
        return match is not None
    same = int(match["minor"]) == target.interpreter.version[1]
    return same and ("t" in match["flags"]) == target.interpreter.free_threaded
