"""What libraries export, forwarded functions followed, and what objects ask of whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.loaders.path_lookup import SearchPath
from binary_checks.model import PeFile


class Exports(Generic[ObjectT]):
    """The symbol tables of one layout's objects, each asked no more than it must be."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._imports: dict[tuple[str, str], Mapping[str, frozenset[str]]] = {}
        self._numbers: dict[tuple[str, str], frozenset[str]] = {}
        self._forwarders: dict[tuple[str, str], Mapping[str, str]] = {}
        self._leads: dict[tuple[str, str, str], bool] = {}
        self._system: dict[str, frozenset[str] | None] = {}
        self.settled: set[tuple[str, str, str, str | None]] = set()
        """What was looked up already: who asks, of whom, and what that came to."""
        self.unsettled: dict[tuple[str, str, int], tuple[str, ...]] = {}
        """By an object and the identity of the answers to its needs, which processes share: of
        whom it asks what has to be looked up in each process anew."""
        self._flat: dict[tuple[str, str], frozenset[str]] = {}

    def of_system(self, name: str) -> frozenset[str] | None:
        """What a library of the system exports; None where that is not known."""
        if name not in self._system:
            data = self._loader.target.library_data.get(name)
            self._system[name] = None if data is None else frozenset(data.symbols)
        return self._system[name]

    def imports(self, library: ObjectT) -> Mapping[str, frozenset[str]]:
        """By the library that they are asked of, the symbols that an object cannot do without."""
        key = (library.path, library.architecture)
        if key not in self._imports:
            self._imports[key] = library.imports.strong
        return self._imports[key]

    def flat(self, library: ObjectT) -> frozenset[str]:
        """What an object asks of whoever is loaded, less what it has itself."""
        key = (library.path, library.architecture)
        if key not in self._flat:
            names = self.imports(library).get("", frozenset())
            self._flat[key] = names - library.exports.among(names)
        return self._flat[key]

    def lacking(self, item: ObjectT, names: frozenset[str], handed: SearchPath) -> frozenset[str]:
        """Those of the names and numbers that an object does not answer for."""
        left = names - item.exports.among(names)
        if not isinstance(item, PeFile):
            return left
        if any(name.startswith("#") for name in left):
            left -= self._numbers_of(item)
        forwarders = self._forwarders_of(item)
        passed_on = names & forwarders.keys() if forwarders else ()
        broken = (n for n in passed_on if not self._leads_on(item, n, forwarders[n], handed))
        return left.union(broken)

    def _numbers_of(self, item: ObjectT) -> frozenset[str]:
        """The ordinals of a PE's exports, as imports by number spell them."""
        key = (item.path, item.architecture)
        if key not in self._numbers:
            numbers = (symbol.ordinal for symbol in item.exports)
            self._numbers[key] = frozenset(f"#{number}" for number in numbers if number is not None)
        return self._numbers[key]

    def _forwarders_of(self, item: ObjectT) -> Mapping[str, str]:
        key = (item.path, item.architecture)
        if key not in self._forwarders:
            self._forwarders[key] = item.exports.forwarders
        return self._forwarders[key]

    def _leads_on(self, item: ObjectT, name: str, forwarder: str, handed: SearchPath) -> bool:
        """Whether ``NTDLL.RtlAllocateHeap`` leads to a library, and a function, that is there.

        A library may pass a function on to the next one, thousands of times.
        """
        passed: dict[tuple[str, str, str], None] = {}
        leads = True  # to itself, at last
        while (key := (item.path, item.architecture, name)) not in passed:
            if key in self._leads:
                leads = self._leads[key]
                break
            passed[key] = None
            library, _, name = forwarder.rpartition(".")
            file_name = library if library.lower().endswith(".dll") else f"{library}.dll"
            found = self._loader.find(item, file_name, self._loader.search(item, handed))
            if found.library is None:
                leads = found.resolved is not None or bool(found.unknown)
                break
            item = found.library
            if name not in self._forwarders_of(item):
                leads = not self.lacking(item, frozenset({name}), handed)
                break
            forwarder = self._forwarders_of(item)[name]
        self._leads.update(dict.fromkeys(passed, leads))
        return leads
