"""What is in scope where: who defines a symbol among all that an ELF process has loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from binary_checks.knowledge.library_names import (
    find_driver_symbols,
    find_own_symbols,
    is_driver_soname,
)
from binary_checks.loaders.elf import ElfLoader
from binary_checks.loaders.image import Image
from binary_checks.loaders.pythons import python_of
from binary_checks.loaders.searches import Answers
from binary_checks.model import ElfFile, ObjectFile, Symbol, TargetSystem

_SYSTEM = "system:"
_PRIVATE = "GLIBC_PRIVATE"  # what it has changes from release to release
_NONE: frozenset[str] = frozenset()


class SystemSymbols:
    """What the libraries of the system export, in the form that sets are subtracted in."""

    def __init__(self, target: TargetSystem) -> None:
        self._data = target.library_data
        self._names: dict[frozenset[str], frozenset[str]] = {}
        self._in_version: dict[tuple[str, str], frozenset[str] | None] = {}

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

    def in_version(self, soname: str, version: str) -> frozenset[str] | None:
        """The names that a library exports in a version or in none; None where it is not known."""
        key = (soname, version)
        if key not in self._in_version:
            data, names = self._data.get(soname), None
            if data and version in data.versions and version != _PRIVATE:
                wanted = {version, ""}
                known = data.symbols.items()
                names = frozenset(name for name, nodes in known if not wanted.isdisjoint(nodes))
            self._in_version[key] = names
        return self._in_version[key]


class Scope:
    """The objects of one process, and which of them each other brings along."""

    def __init__(self, image: Image[ElfFile], loader: ElfLoader, system: SystemSymbols) -> None:
        self.image, self.loader, self.system = image, loader, system
        self.target, self.rules = loader.target, loader.rules
        self.python = python_of(image.root, loader.target) if image.python else None
        self.objects = {loader.layout.label(item.path): item for item in image.objects}
        pairs = zip(image.objects, image.answers, strict=True)
        self._answers = {item.path: answers for item, answers in pairs}

    def answers_to(self, library: ElfFile) -> Answers:
        """What the needs of one of the objects come to."""
        return self._answers[library.path]

    def closure(self, library: ElfFile) -> Iterator[ElfFile]:
        """A library, what it needs, what that needs and so on, each object once, nearest first.

        What is further away is looked for only when somebody asks for it.
        """
        layer, seen = [library], {self.loader.layout.label(library.path)}
        while layer:
            self.loader.steps.count(len(layer))
            yield from layer
            labels: list[str] = []
            for item in layer:
                fresh = set(self.answers_to(item).inside) - seen
                seen |= fresh
                labels.extend(fresh)
            layer = [self.objects[label] for label in labels if label in self.objects]

    def leftover(self, names: frozenset[str], objects: Iterable[ElfFile]) -> frozenset[str]:
        """Those of the names that neither these objects define, nor what each needs of the system.

        And neither does Python.
        """
        preloaded = self.rules.preloaded(self.target.libraries) if self.image.python else ()
        left = set(self._not_of_python(names - self.system.names(frozenset(preloaded))))
        for item in objects if left else ():
            left -= item.exports.among(left)
            if system := self._system_of(item):
                left -= self.system.names(system).intersection(left)
            if not left:
                break
        return frozenset(left)

    def _system_of(self, library: ElfFile) -> frozenset[str]:
        """What an object needs of the system, and what comes with that."""
        outside = self.answers_to(library).outside
        labels = [e.resolved for e in outside if e.resolved and e.resolved.startswith(_SYSTEM)]
        names = [label.removeprefix(_SYSTEM) for label in labels]
        return frozenset(names).union(*map(self.loader.brings, names))

    def _not_of_python(self, names: frozenset[str]) -> frozenset[str]:
        return names - self.python.exports if self.python else names

    def remaining(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that nothing in the process defines."""
        left = set(self._not_of_python(names - self.system.names(frozenset(self.image.system))))
        self.loader.steps.count(len(self.image.objects))
        for item in self.image.objects if left else ():
            left -= item.exports.among(left)
            if not left:
                break
        return frozenset(left)

    def of_driver(self, names: frozenset[str]) -> dict[str, frozenset[str]]:
        """Those of the names that NVIDIA's driver defines, by the library of it that is needed."""
        edges = self.image.outside if names else ()
        outside = {e.needed for e in edges if (e.resolved or _SYSTEM).startswith(_SYSTEM)}
        return {
            name: find_driver_symbols(name, names) for name in outside if is_driver_soname(name)
        }

    def answers(self, name: str, version: str) -> bool:
        """Whether anything loaded matches a versioned reference (check_match of dl-lookup.c).

        That is a definition of that version, or one without any.
        """
        wanted = {version, ""}
        self.loader.steps.count(len(self.image.objects))
        return any(self.system.has(soname, name, version) for soname in self.image.system) or any(
            symbol.version in wanted
            for item in self.image.objects
            for symbol in item.exports.find(name)
        )

    @cached_property
    def unseen(self) -> Mapping[str, str]:
        """The libraries of which nobody knows what they define, and why, in load order."""
        found: dict[str, str] = {}
        for edge in self.image.outside:
            if is_driver_soname(edge.needed):
                continue
            if edge.resolved is None:
                found.setdefault(edge.needed, f"{edge.needed} is not found")
            elif edge.resolved.startswith("python:") and self.python is None:
                found.setdefault(edge.needed, f"{edge.needed} has no export data")
        for name in self.image.system:
            # What musl takes itself for, under whatever name, has the exports of libc.
            known = is_driver_soname(name) or self.rules.answers_itself(name)
            if not known and self.target.library_data.get(name) is None:
                found.setdefault(name, f"{name} has no export data")
        for name in self.image.unread:
            found.setdefault(name, f"{name} could not be read")
        return found

    @property
    def blindness(self) -> str:
        """Why a symbol may be defined where nobody can look; "" when all of the scope is known."""
        return next(iter(self.unseen.values()), "")

    def certain(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that nothing unseen can define, as a framework in scope has them."""
        loaded = (item.name or item.file_name for item in self.image.objects)
        return find_own_symbols(names, loaded, self.unseen) if names else names


def strong(library: ObjectFile, names: Iterable[str]) -> frozenset[str]:
    """Those undefined symbols of the library that must be found; a weak one may stay undefined."""
    return frozenset(
        name for name in names if any(not symbol.weak for symbol in library.imports.find(name))
    )


def mismatched(library: ElfFile, scope: Scope) -> Iterator[tuple[str, str, str]]:
    """Each reference whose library has the name, but in no such version: name, version, label."""
    asks: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for (asked, version), names in library.imports.by_version.items():
        asks.setdefault(asked, []).append((version, names))
    for edge in scope.answers_to(library).edges:
        label = edge.resolved or ""
        if label not in scope.objects and not label.startswith(_SYSTEM):
            continue
        for version, names in asks.get(edge.needed, ()):
            for name in _lacking(names, version, label, scope):
                if any(_asks(each, version, edge.needed) for each in library.imports.find(name)):
                    yield name, version, label


def _lacking(names: frozenset[str], version: str, label: str, scope: Scope) -> Iterable[str]:
    """Those of the names that a library has, and not in this version."""
    provider = scope.objects.get(label)
    if provider is None:
        exported = scope.system.in_version(label.removeprefix(_SYSTEM), version)
        return _NONE if exported is None else names - exported
    found = {name: provider.exports.find(name) for name in provider.exports.among(names)}
    return (n for n, each in found.items() if all(symbol.version != version for symbol in each))


def _asks(symbol: Symbol, version: str, library: str) -> bool:
    return symbol.version == version and symbol.library == library and not symbol.weak
