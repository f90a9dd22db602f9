"""What libraries export, forwarded functions followed, and what objects ask of whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.loaders.places import Place
from binary_checks.model import Dependency, PeFile, SymbolTable


class Exports(Generic[ObjectT]):
    """The symbol tables of one layout's objects, each taken apart once."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._imports: dict[tuple[str, str], Mapping[str, frozenset[str]]] = {}
        self._exports: dict[tuple[str, str], frozenset[str]] = {}
        self._system: dict[str, frozenset[str] | None] = {}
        self.settled: set[tuple[str, str, str, str | None]] = set()
        """What was looked up already: who asks, of whom, and what that came to."""

    def of_system(self, name: str) -> frozenset[str] | None:
        """What a library of the system exports; None where that is not known."""
        if name not in self._system:
            data = self._loader.target.library_data.get(name)
            self._system[name] = None if data is None else frozenset(data.symbols)
        return self._system[name]

    def imports(self, library: ObjectT) -> Mapping[str, frozenset[str]]:
        """By the library that they are asked of, the symbols that an object imports."""
        key = (library.path, library.architecture)
        if key not in self._imports:
            grouped = library.imports.by_version
            self._imports[key] = {asked: names for (asked, _), names in grouped.items()}
        return self._imports[key]

    def of(self, item: ObjectT, handed: tuple[Place, ...]) -> frozenset[str]:
        """All names and numbers that an object answers for."""
        key = (item.path, item.architecture)
        if key not in self._exports:
            self._exports[key] = item.exports.names
            self._exports[key] = self._answered(item, handed)
        return self._exports[key]

    def _answered(self, item: ObjectT, handed: tuple[Place, ...]) -> frozenset[str]:
        if not isinstance(item, PeFile):
            return item.exports.names
        broken = {
            symbol.name
            for symbol in item.exports
            if symbol.forwarder and not self._leads_on(item, symbol.forwarder, handed)
        }
        return (item.exports.names | _numbers(item.exports)) - broken

    def _leads_on(self, item: ObjectT, forwarder: str, handed: tuple[Place, ...]) -> bool:
        """Whether ``NTDLL.RtlAllocateHeap`` leads to a library, and a function, that is there."""
        library, _, name = forwarder.rpartition(".")
        file_name = library if library.lower().endswith(".dll") else f"{library}.dll"
        found = self._loader.find(item, Dependency(name=file_name), handed)
        if found.library is None:
            return found.edge.resolved is not None or bool(found.edge.unknown)
        return name in self.of(found.library, handed)


def _numbers(table: SymbolTable) -> frozenset[str]:
    """The ordinals of a PE's exports, as imports by number spell them."""
    return frozenset(f"#{symbol.ordinal}" for symbol in table if symbol.ordinal is not None)
