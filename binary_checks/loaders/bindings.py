"""Looks up symbols where each is asked of one library: Mach-O's two levels, PE's import tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Generic, NamedTuple

from binary_checks.loaders.exported_symbols import Exports
from binary_checks.loaders.image import Image
from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.loaders.lookups import Lookups, is_pythons
from binary_checks.model import Edge, UnexploredSymbols, UnresolvedSymbol

EXECUTABLE = "@executable"
"""Of whom Mach-O asks what the program itself defines, which is Python."""
_NONE: frozenset[str] = frozenset()


def look_up_bindings(images: Iterable[Image[ObjectT]], loader: Loader[ObjectT]) -> Lookups:
    """Look up every strong import of the package's objects, in every process that loads them.

    What is asked of a library of the system whose exports are not known is taken for granted, and
    counted.
    """
    exports = Exports(loader)
    unresolved: dict[tuple[str, str, str, str], UnresolvedSymbol] = {}
    unexplored: dict[str, UnexploredSymbols] = {}
    granted: dict[tuple[str, str, str], int] = {}
    for image in images:
        process = _Process(image, loader, exports)
        for library in filter(loader.layout.is_own, image.objects):
            for asked in exports.imports(library):
                for item in process.judge(library, asked):
                    unresolved.setdefault(
                        (item.path, item.architecture, item.name, item.library), item
                    )
        granted.update(process.granted)
        for hidden in process.unexplored:
            known = unexplored.get(hidden.path)
            if known is None or known.count < hidden.count:
                unexplored[hidden.path] = hidden
    totals: Counter[str] = Counter()
    for (_, _, name), count in granted.items():
        totals[name] += count
    return Lookups(
        unresolved=tuple(unresolved[key] for key in sorted(unresolved)),
        unexplored=tuple(unexplored[key] for key in sorted(unexplored)),
        granted=tuple(sorted(totals.items())),
    )


class _Left(NamedTuple):
    """What is left of some names once somebody has answered for the others."""

    names: frozenset[str]
    known: bool = True  # all that whoever was asked has


class _Process(Generic[ObjectT]):
    """One process, and who in it answers for what."""

    def __init__(
        self, image: Image[ObjectT], loader: Loader[ObjectT], exports: Exports[ObjectT]
    ) -> None:
        self.image, self.loader, self.exports = image, loader, exports
        self.unexplored: list[UnexploredSymbols] = []
        self.granted: dict[tuple[str, str, str], int] = {}
        self._objects = {loader.layout.label(item.path): item for item in image.objects}
        pairs = zip(image.objects, image.answers, strict=True)
        self._answers = {item.path: answers for item, answers in pairs}

    def _edge(self, item: ObjectT, needed: str) -> Edge | None:
        answers = self._answers.get(item.path)
        return answers.by_name.get(needed) if answers else None

    def judge(self, library: ObjectT, asked: str) -> Iterator[UnresolvedSymbol]:
        """The symbols that a library asks of another, or of all, and that are not there."""
        names = self.exports.imports(library)[asked]
        if not asked:
            yield from self._look_everywhere(library, names)
            return
        edge = self._edge(library, asked)
        if edge is not None and edge.resolved is None:
            return  # the whole library is missing, or may be: that is told once
        if edge is not None and self._is_settled(edge):
            return
        left = self._ask(library, asked, edge, names)
        if left.known:
            yield from self._describe(library, left.names, asked, edge)
        elif left.names:
            self.granted[library.path, library.architecture, asked] = len(left.names)

    def _is_settled(self, edge: Edge) -> bool:
        """Whether another process has judged the same: only what is re-exported may differ."""
        provider = self._objects.get(edge.resolved or "")
        if provider is not None and any(need.reexported for need in provider.needed):
            return False
        key = (edge.path, edge.architecture, edge.needed, edge.resolved)
        settled = key in self.exports.settled
        self.exports.settled.add(key)
        return settled

    def _ask(self, library: ObjectT, asked: str, edge: Edge | None, names: frozenset[str]) -> _Left:
        if edge is not None:
            return self._ask_for(edge.resolved or "", names)
        if asked == EXECUTABLE:
            if not self.image.python:
                return self._ask_object(self.image.root, names)
            python = self.loader.target.interpreter
            return _Left(names - python.exports) if python else _Left(names, known=False)
        if asked == library.name:
            return self._ask_object(library, names)
        return _Left(names, known=False)

    def _ask_for(self, label: str, names: frozenset[str]) -> _Left:
        item = self._objects.get(label) or self.loader.layout.labelled(label)
        if item is not None:
            return self._ask_object(item, names)
        origin, _, name = label.partition(":")
        python = self.loader.target.interpreter
        if origin == "python" and python is not None:
            exported = python.libraries.get(name.lower(), python.exports)
            return _Left(names - exported, known=bool(exported))
        known = self.exports.of_system(name) if origin == "system" else None
        return _Left(names, known=False) if known is None else _Left(names - known)

    def _ask_object(
        self, item: ObjectT, names: frozenset[str], above: frozenset[str] = _NONE
    ) -> _Left:
        """Ask an object, and then the libraries that it re-exports."""
        left = _Left(self.exports.lacking(item, names, self.loader.begin(self.image.root)))
        for need in item.needed if left.names else ():
            edge = self._edge(item, need.name)
            if not need.reexported or edge is None or edge.resolved in above:
                continue
            label = edge.resolved or ""
            other = self._objects.get(label)
            rest = (
                self._ask_object(other, left.names, above | {label})
                if other
                else self._ask_for(label, left.names)
            )
            left = _Left(rest.names, left.known and rest.known)
        return left

    def _look_everywhere(
        self, library: ObjectT, names: frozenset[str]
    ) -> Iterator[UnresolvedSymbol]:
        """Look symbols up in all that is loaded: flat names, and C++'s that are to be one."""
        python = self.loader.target.interpreter
        if self.image.python and python is not None:
            names = names - python.exports
        for name in self.image.system if names else ():  # their lists are at hand
            names = self._not_of(name, names)
        for item in self.image.objects:
            names = names - item.exports.among(names) if names else names
        hidden, reason = self._out_of_sight(names)
        if hidden:
            self.unexplored.append(
                UnexploredSymbols(path=library.path, count=len(hidden), reason=reason)
            )
        yield from self._describe(library, names - hidden, "", None)

    def _not_of(self, library: str, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that a library of the system does not have, as far as is known."""
        known = self.exports.of_system(library)
        if known is not None:
            return names - known
        return frozenset(name for name in names if not self.loader.presumes(name, library))

    def _out_of_sight(self, names: frozenset[str]) -> tuple[frozenset[str], str]:
        if names and self._blindness:
            return names, self._blindness
        if self.image.python and self.loader.target.interpreter is None:
            hidden = frozenset(filter(is_pythons, names))
            return hidden, "the exports of the tag's Python are not known"
        return _NONE, ""

    @cached_property
    def _blindness(self) -> str:
        """Why a symbol may be defined where nobody can look; "" when all is known."""
        for edge in self.image.outside:
            if edge.resolved is None and not edge.weak and not edge.delayed:
                return f"{edge.needed} is not found"
        preloaded = self.loader.preloaded()
        for name in self.image.system:
            # What Python alone brings is no reason why an object should find its symbols there.
            if self.exports.of_system(name) is None and (
                not self.image.python or name not in preloaded
            ):
                return f"{name} has no export data"
        return f"{self.image.unread[0]} could not be read" if self.image.unread else ""

    def _describe(
        self, library: ObjectT, names: frozenset[str], asked: str, edge: Edge | None
    ) -> Iterator[UnresolvedSymbol]:
        if not names:
            return
        elsewhere = self.loader.layout.definers(names, library)
        several = len(self.loader.target.architectures) > 1
        for name in sorted(names):
            yield UnresolvedSymbol(
                path=library.path,
                name=name,
                library=asked,
                root=self.image.root.path,
                elsewhere=elsewhere.get(name, ""),
                architecture=library.architecture if several else "",
                delayed=edge is not None and edge.delayed,
            )
