"""Look up symbols that are bound to one library: two-level namespaces of Mach-O, imports of PE."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Generic, NamedTuple

from binary_checks.loaders.image import Image, Lookups, Unresolved, may_be_exported, python_of
from binary_checks.loaders.loader import Loader, ObjectT, SearchPath
from binary_checks.model import Edge, PeFile, UnexploredSymbols, UnresolvedSymbol

# The exports of libraries, including forwarded functions, and the imports of objects.


class Exports(Generic[ObjectT]):
    """The symbol tables of one layout's objects, queried as rarely as possible."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._imports: dict[tuple[str, str], Mapping[str, frozenset[str]]] = {}
        self._numbers: dict[tuple[str, str], frozenset[str]] = {}
        self._forwarders: dict[tuple[str, str], Mapping[str, str]] = {}
        self._leads: dict[tuple[str, str, str], bool] = {}
        self._system: dict[str, frozenset[str] | None] = {}
        self.settled: set[tuple[str, str, str, str | None]] = set()
        """Completed lookups: object, architecture, needed name and the label found for that
        name.
        """
        self.unsettled: dict[tuple[str, str, int], tuple[str, ...]] = {}
        """(path, architecture, identity of the answers to an object's needs, which processes share)
        -> the libraries whose symbols must be looked up again in each process.
        """
        self._flat: dict[tuple[str, str], frozenset[str]] = {}

    def of_system(self, name: str) -> frozenset[str] | None:
        """Return the exports of a system's library; None if they are unknown."""
        if name not in self._system:
            data = self._loader.target.library_data.get(name)
            self._system[name] = None if data is None else frozenset(data.symbols)
        return self._system[name]

    def imports(self, library: ObjectT) -> Mapping[str, frozenset[str]]:
        """Map each library to the symbols that an object must find in it."""
        key = (library.path, library.architecture)
        if key not in self._imports:
            self._imports[key] = library.imports.strong
        return self._imports[key]

    def flat(self, library: ObjectT) -> frozenset[str]:
        """Return the flat symbols of an object that it does not define itself."""
        key = (library.path, library.architecture)
        if key not in self._flat:
            names = self.imports(library).get("", frozenset())
            self._flat[key] = names - library.exports.among(names)
        return self._flat[key]

    def lacking(self, item: ObjectT, names: frozenset[str], handed: SearchPath) -> frozenset[str]:
        """Return the names and ordinals that an object does not export."""
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
        """Return the ordinals of a PE image's exports in the form of imports (``#5``)."""
        key = (item.path, item.architecture)
        if key not in self._numbers:
            numbers = (symbol.ordinal for symbol in item.exports)
            self._numbers[key] = frozenset(f"#{number}" for number in numbers if number is not None)
        return self._numbers[key]

    def _forwarders_of(self, item: ObjectT) -> Mapping[str, str]:
        key = (item.path, item.architecture)
        if key not in self._forwarders:
            forwarded = (symbol for symbol in item.exports if symbol.forwarder)
            self._forwarders[key] = {symbol.name: symbol.forwarder for symbol in forwarded}
        return self._forwarders[key]

    def _leads_on(self, item: ObjectT, name: str, forwarder: str, handed: SearchPath) -> bool:
        """Return whether a forwarder (``NTDLL.RtlAllocateHeap``) leads to an existing function.

        A forwarder may lead through thousands of libraries.
        """
        passed: dict[tuple[str, str, str], None] = {}
        leads = True  # true if the forwarder leads back to itself
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


# The lookup.

EXECUTABLE = "@executable"
"""In Mach-O: the library of symbols that the main program defines, which is Python."""
_NONE: frozenset[str] = frozenset()


def look_up_bindings(images: Iterable[Image[ObjectT]], loader: Loader[ObjectT]) -> Lookups:
    """Look up every strong import of the package's objects, in every process that loads them.

    If there is no export data for a system library, its symbols are taken as defined, and
    ``unknown_exports`` has their number.
    """
    exports = Exports(loader)
    unresolved = Unresolved(loader.layout)
    unexplored: dict[str, UnexploredSymbols] = {}
    unknown_exports: dict[tuple[str, str, str], int] = {}
    for image in images:
        process = _Process(image, loader, exports)
        for architecture, item in process.judge_all():
            unresolved.add(item, architecture, asked=item.library)
        unknown_exports.update(process.unknown_exports)
        for unexplorable in process.unexplored:
            known = unexplored.get(unexplorable.path)
            if known is None or known.count < unexplorable.count:
                unexplored[unexplorable.path] = unexplorable
    totals: Counter[str] = Counter()
    for (_, _, name), count in unknown_exports.items():
        totals[name] += count
    return Lookups(
        unresolved=unresolved.list_all(),
        unexplored=tuple(unexplored[key] for key in sorted(unexplored)),
        unknown_exports=tuple(sorted(totals.items())),
    )


class _Left(NamedTuple):
    """The names that remain undefined after asking one library."""

    names: frozenset[str]
    known: bool = True  # whether all exports of the library are known


class _Process(Generic[ObjectT]):
    """One process, and the libraries that define its symbols."""

    def __init__(
        self, image: Image[ObjectT], loader: Loader[ObjectT], exports: Exports[ObjectT]
    ) -> None:
        self.image, self.loader, self.exports = image, loader, exports
        self.unexplored: list[UnexploredSymbols] = []
        self.unknown_exports: dict[tuple[str, str, str], int] = {}
        self._python = python_of(image.root, loader.target)
        self._objects = {loader.layout.label(item.path): item for item in image.objects}
        pairs = zip(image.objects, image.answers, strict=True)
        self._answers = {item.path: answers for item, answers in pairs}

    def _edge(self, item: ObjectT, needed: str) -> Edge | None:
        answers = self._answers.get(item.path)
        return answers.by_name.get(needed) if answers else None

    def judge_all(self) -> Iterator[tuple[str, UnresolvedSymbol]]:
        """Yield symbols that the package's objects lack, if no other process has reported them.

        Each symbol comes with the architecture of its object.
        """
        for library, answers in zip(self.image.objects, self.image.answers, strict=True):
            if not self.loader.layout.is_own(library):
                continue
            key = (library.path, library.architecture, id(answers))
            asks = self.exports.unsettled.get(key)
            if asks is None:
                asks = tuple(self.exports.imports(library))
                self.exports.unsettled[key] = tuple(
                    asked for asked in asks if self._may_differ(answers.by_name.get(asked))
                )
            for asked in asks:
                lacking = self._judge(library, asked)
                yield from ((library.architecture, each) for each in lacking)

    def _judge(self, library: ObjectT, asked: str) -> Iterator[UnresolvedSymbol]:
        """Yield a library's undefined symbols that are bound to ``asked``, or to no library."""
        if not asked:
            yield from self._look_everywhere(library)
            return
        edge = self._edge(library, asked)
        if edge is not None and edge.resolved is None:
            return  # the missing library is already reported as a whole
        if edge is not None and self._is_settled(edge):
            return
        left = self._ask(library, asked, edge, self.exports.imports(library)[asked])
        if left.known:
            yield from self._describe(library, left.names, asked, edge)
        elif left.names:
            self.unknown_exports[library.path, library.architecture, asked] = len(left.names)

    def _may_differ(self, edge: Edge | None) -> bool:
        """Return whether the same lookup may have another result in another process."""
        if edge is None:
            return True
        provider = self._objects.get(edge.resolved or "")
        return provider is not None and any(need.reexported for need in provider.needed)

    def _is_settled(self, edge: Edge) -> bool:
        """Return whether another process has had the same result for this need.

        Return False if the library found re-exports other libraries, since their symbols may
        differ.
        """
        if self._may_differ(edge):
            return False
        key = (edge.path, edge.architecture, edge.needed, edge.resolved)
        settled = key in self.exports.settled
        self.exports.settled.add(key)
        return settled

    def _ask(self, library: ObjectT, asked: str, edge: Edge | None, names: frozenset[str]) -> _Left:
        if edge is not None:
            label = edge.resolved or ""
            item = self._objects.get(label) or self.loader.layout.labelled(label)
            return self._ask_object(item, names) if item else self._ask_outside(label, names)
        if asked == EXECUTABLE:
            if not self.image.python:
                return self._ask_object(self.image.root, names)
            python = self._python
            return _Left(names - python.exports) if python else _Left(names, known=False)
        if asked == library.name:
            return self._ask_object(library, names)
        return _Left(names, known=False)

    def _ask_outside(self, label: str, names: frozenset[str]) -> _Left:
        """Ask a library of the system or of Python."""
        origin, _, name = label.partition(":")
        python = self._python
        if origin == "python" and python is not None:
            exported = python.libraries.get(name.lower(), python.exports)
            return _Left(names - exported, known=bool(exported))
        known = self.exports.of_system(name) if origin == "system" else None
        return _Left(names, known=False) if known is None else _Left(names - known)

    def _ask_object(self, item: ObjectT, names: frozenset[str]) -> _Left:
        """Ask an object, then the libraries that it re-exports, and so on, each only once."""
        begun, left, known = self.loader.begin(self.image.root), names, True
        queue, asked = deque([item]), {self.loader.layout.label_of(item)}
        while queue and left:
            item = queue.popleft()
            left = self.exports.lacking(item, left, begun)
            for need in item.needed if left else ():
                edge = self._edge(item, need.name) if need.reexported else None
                if edge is None or edge.resolved in asked:
                    continue
                label = edge.resolved or ""
                asked.add(label)
                other = self._objects.get(label) or self.loader.layout.labelled(label)
                if other is not None:
                    queue.append(other)
                else:
                    left, is_known = self._ask_outside(label, left)
                    known = known and is_known
        return _Left(left, known)

    def _look_everywhere(self, library: ObjectT) -> Iterator[UnresolvedSymbol]:
        """Look symbols up in all loaded objects: flat names, and shared definitions of C++."""
        names = self.exports.flat(library)
        if self.image.python and self._python is not None:
            names = names - self._python.exports
        for known in self._known_exports if names else ():  # the cheapest lookup comes first
            names = names - known
        if self._symbol_prefixes:
            names = frozenset(name for name in names if not name.startswith(self._symbol_prefixes))
        for item in self.image.objects:
            names = names - item.exports.among(names) if names else names
        unexplorable, reason = self._find_unexplorable(library, names)
        if unexplorable:
            self.unexplored.append(
                UnexploredSymbols(path=library.path, count=len(unexplorable), reason=reason)
            )
        yield from self._describe(library, names - unexplorable, "", None)

    @cached_property
    def _known_exports(self) -> tuple[frozenset[str], ...]:
        lists = map(self.exports.of_system, self.image.system)
        return tuple(known for known in lists if known is not None)

    @cached_property
    def _symbol_prefixes(self) -> tuple[str, ...]:
        """Prefixes of symbols that libraries without export data are assumed to define."""
        unknown = (name for name in self.image.system if self.exports.of_system(name) is None)
        return tuple(start for name in unknown for start in self.loader.symbol_prefixes(name))

    def _find_unexplorable(
        self, library: ObjectT, names: frozenset[str]
    ) -> tuple[frozenset[str], str]:
        """Return the names that a library with unknown exports may define, and why."""
        excluded = self.loader.never_flat(library) if names else ()
        for unseen, reason in self._unseen.items() if names else ():
            if unseen not in excluded:
                return names, reason
        if self.image.python:
            unexplorable = frozenset(n for n in names if may_be_exported(n, self._python))
            return unexplorable, "the exports of its Python are not known"
        return _NONE, ""

    @cached_property
    def _unseen(self) -> Mapping[str, str]:
        """Libraries with unknown exports, in load order, and why they are unknown."""
        found: dict[str, str] = {}
        for edge in self.image.outside:
            if edge.resolved is None and not edge.weak and not edge.delayed:
                found.setdefault(edge.needed, f"{edge.needed} is not found")
        preloaded = self.loader.preloaded()
        for name in self.image.system:
            # Objects do not search for their symbols in libraries that only Python loads.
            if self.exports.of_system(name) is None and (
                not self.image.python or name not in preloaded
            ):
                found.setdefault(name, f"{name} has no export data")
        for name in self.image.unread:
            found.setdefault(name, f"{name} could not be read")
        return found

    def _describe(
        self, library: ObjectT, names: frozenset[str], asked: str, edge: Edge | None
    ) -> Iterator[UnresolvedSymbol]:
        if not names:
            return
        several = len(self.loader.target.architectures) > 1
        for name in sorted(names):
            yield UnresolvedSymbol(
                path=library.path,
                name=name,
                library=asked,
                root=self.image.root.path,
                architecture=library.architecture if several else "",
                delayed=edge is not None and edge.delayed,
            )
