"""What is in scope where: who defines a symbol among all that an ELF process has loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from binary_checks.loaders.driver_symbols import is_driver, may_define
from binary_checks.loaders.elf import ElfLoader
from binary_checks.loaders.image import Image
from binary_checks.model import Edge, ElfFile, ObjectFile, Symbol, TargetSystem

_SYSTEM = "system:"
_NONE: frozenset[str] = frozenset()


class SystemSymbols:
    """What the libraries of the system export, in the form that sets are subtracted in."""

    def __init__(self, target: TargetSystem) -> None:
        self._data = target.library_data
        self._names: dict[frozenset[str], frozenset[str]] = {}

    def names(self, sonames: frozenset[str]) -> frozenset[str]:
        """All that these libraries export together, as far as there is export data."""
        if sonames not in self._names:
            known = filter(None, map(self._data.get, sonames))
            self._names[sonames] = _NONE.union(*(data.symbols for data in known))
        return self._names[sonames]

    def has(self, soname: str, name: str, version: str) -> bool:
        """Whether a library exports that symbol in that version."""
        data = self._data.get(soname)
        return data is not None and version in data.symbols.get(name, ())


class Scope:
    """The objects of one process, and which of them each other brings along."""

    def __init__(self, image: Image[ElfFile], loader: ElfLoader, system: SystemSymbols) -> None:
        self.image, self.loader, self.system = image, loader, system
        self.target, self.rules = loader.target, loader.rules
        self.objects = {loader.layout.label(item.path): item for item in image.objects}
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
                    system.update(dict.fromkeys((name, *self.loader.brings(name))))
        return tuple(found.values()), tuple(system)

    def _preloaded(self) -> tuple[str, ...]:
        return self.rules.preloaded(self.target.libraries) if self.image.python else ()

    def remaining(
        self, names: frozenset[str], objects: Iterable[ElfFile], system: Iterable[str]
    ) -> frozenset[str]:
        """Those of the names that neither these objects, nor these libraries, nor Python define."""
        names -= self.system.names(frozenset(system))
        if self.image.python and self.target.interpreter:
            names -= self.target.interpreter.exports
        for item in objects:
            if not names:
                break
            names -= item.exports.names
        return names

    def of_driver(self, names: frozenset[str]) -> dict[str, frozenset[str]]:
        """Those of the names that NVIDIA's driver defines, by the library of it that is needed."""
        edges = self.image.edges if names else ()
        outside = {e.needed for e in edges if (e.resolved or _SYSTEM).startswith(_SYSTEM)}
        return {name: may_define(name, names) for name in outside if is_driver(name)}

    def answers(self, name: str, version: str) -> bool:
        """Whether anything loaded matches a versioned reference (check_match of dl-lookup.c).

        That is a definition of that version, or one without any.
        """
        wanted = {version, ""}
        return any(self.system.has(soname, name, version) for soname in self.image.system) or any(
            symbol.version in wanted
            for item in self.image.objects
            for symbol in item.exports.find(name)
        )

    @cached_property
    def blindness(self) -> str:
        """Why a symbol may be defined where nobody can look; "" when all of the scope is known."""
        for edge in self.image.edges:
            if is_driver(edge.needed):
                continue
            if edge.resolved is None:
                return f"{edge.needed} is not found"
            if edge.resolved.startswith("python:") and self.target.interpreter is None:
                return f"{edge.needed} has no export data"
        for name in self.image.system:
            if self.target.library_data.get(name) is None and not is_driver(name):
                return f"{name} has no export data"
        return f"{self.image.unread[0]} could not be read" if self.image.unread else ""


def strong(library: ObjectFile, names: Iterable[str]) -> frozenset[str]:
    """Those undefined symbols of the library that must be found; a weak one may stay undefined."""
    return frozenset(
        name for name in names if any(not symbol.weak for symbol in library.imports.find(name))
    )


def mismatched(library: ElfFile, scope: Scope) -> Iterator[tuple[str, str, ElfFile]]:
    """The name and version of each reference whose library has the name, but in no such version.

    What a library of the system lacks is judged by the version nodes it has.
    """
    for edge in scope.edges(library):
        provider = scope.objects.get(edge.resolved or "")
        if provider is None:
            continue
        for (asked, version), names in library.imports.by_version.items():
            if asked != edge.needed:
                continue
            lacking = names - provider.exports.by_version.get(("", version), _NONE)
            for name in lacking & provider.exports.names if lacking else ():
                if any(_asks(symbol, version, asked) for symbol in library.imports.find(name)):
                    yield name, version, provider


def _asks(symbol: Symbol, version: str, library: str) -> bool:
    return symbol.version == version and symbol.library == library and not symbol.weak
