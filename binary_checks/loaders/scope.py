"""What is in scope where: who defines a symbol among all that a process has loaded."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.loaders.image import Image, LoaderRules
from binary_checks.loaders.layout import Layout
from binary_checks.model import Edge, ElfFile, Symbol, TargetSystem

_SYSTEM = "system:"


class SystemSymbols:
    """What the libraries of the system export, in the form that sets are subtracted in."""

    def __init__(self, target: TargetSystem) -> None:
        self._data = target.library_data
        self._names: dict[str, frozenset[str]] = {}
        self._labels: dict[str, frozenset[str]] = {}

    def names(self, soname: str) -> frozenset[str]:
        """The names; empty without export data."""
        if soname not in self._names:
            data = self._data.get(soname)
            self._names[soname] = frozenset(data.symbols) if data else frozenset()
        return self._names[soname]

    def labels(self, soname: str) -> frozenset[str]:
        """``name@version`` of each; empty without export data."""
        if soname not in self._labels:
            data = self._data.get(soname)
            rows = data.symbols.items() if data else ()
            self._labels[soname] = frozenset(f"{name}@{node}" for name, v in rows for node in v)
        return self._labels[soname]


class Scope:
    """The objects of one process, and which of them each other brings along."""

    def __init__(
        self,
        image: Image,
        layout: Layout,
        target: TargetSystem,
        rules: LoaderRules,
        system: SystemSymbols,
    ) -> None:
        self.image, self.target, self.rules, self.system = image, target, rules, system
        self.objects = {layout.label(item.path): item for item in image.objects}
        self._edges: dict[str, list[Edge]] = {}
        for edge in image.edges:
            self._edges.setdefault(edge.path, []).append(edge)

    def edges(self, library: ElfFile) -> Iterable[Edge]:
        """The needs of one of the objects."""
        return self._edges.get(library.path, ())

    def closure(self, library: ElfFile) -> tuple[tuple[ElfFile, ...], tuple[str, ...]]:
        """What a library needs, directly or not: itself and other objects, and system libraries."""
        found, system = {library.path: library}, dict.fromkeys(self._preloaded())
        queue = [library]
        for item in queue:
            for edge in self.edges(item):
                other = self.objects.get(edge.resolved or "")
                if other is not None and other.path not in found:
                    found[other.path] = other
                    queue.append(other)
                elif edge.resolved and edge.resolved.startswith(_SYSTEM):
                    name = edge.resolved.removeprefix(_SYSTEM)
                    brought = self.rules.brings(name, self.target.libraries)
                    system.update(dict.fromkeys((name, *brought)))
        return tuple(found.values()), tuple(system)

    def _preloaded(self) -> tuple[str, ...]:
        return self.rules.preloaded(self.target.libraries) if self.image.python else ()

    def remaining(
        self, names: frozenset[str], objects: Iterable[ElfFile], system: Iterable[str]
    ) -> frozenset[str]:
        """Those of the names that neither these objects, nor these libraries, nor Python define."""
        for item in objects:
            names -= item.exports.names
            if not names:
                return names
        for soname in system:
            names -= self.system.names(soname)
        interpreter = self.target.interpreter if self.image.python else None
        return names - interpreter.exports if interpreter else names

    def unmatched(
        self, labels: frozenset[str], objects: Iterable[ElfFile], system: Iterable[str]
    ) -> frozenset[str]:
        """Those ``name@version`` references that none of these has in that version."""
        for item in objects:
            if labels and item.defined_versions:
                labels -= item.exports.labels
        for soname in system:
            labels -= self.system.labels(soname)
        return labels

    def blindness(self) -> str:
        """Why a symbol may be defined where nobody can look; "" when all of the scope is known."""
        for edge in self.image.edges:
            if edge.resolved is None:
                return f"{edge.needed} is not found"
            if edge.resolved.startswith("python:") and self.target.interpreter is None:
                return f"{edge.needed} has no export data"
        for name in self.image.system:
            if self.target.library_data.get(name) is None:
                return f"{name} has no export data"
        return f"{self.image.unread[0]} could not be read" if self.image.unread else ""


def strong(library: ElfFile, names: Iterable[str]) -> frozenset[str]:
    """Those undefined symbols of the library that must be found; a weak one may stay undefined."""
    return frozenset(
        name for name in names if any(not symbol.weak for symbol in library.imports.find(name))
    )


def another_version(library: ElfFile, labels: Iterable[str], scope: Scope) -> dict[str, ElfFile]:
    """Those of the references whose library has the name, with that library.

    What a library of the system lacks is judged by the version nodes it has.
    """
    labels = tuple(labels)
    found: dict[str, ElfFile] = {}
    for edge in scope.edges(library) if labels else ():
        provider = scope.objects.get(edge.resolved or "")
        for label in labels if provider else ():
            name, _, version = label.partition("@")
            if provider and name in provider.exports.names:
                asked = library.imports.find(name)
                if any(_asks(symbol, version, edge.needed) for symbol in asked):
                    found[label] = provider
    return found


def _asks(symbol: Symbol, version: str, library: str) -> bool:
    return symbol.version == version and symbol.library == library and not symbol.weak


def defines_without_version(scope: Scope, name: str) -> bool:
    """Whether some object answers for any version (check_match of glibc's dl-lookup.c)."""
    return any(
        not symbol.version for item in scope.image.objects for symbol in item.exports.find(name)
    )
