"""Load objects into fresh processes as a loader would; collect what these processes lack."""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Generic

from binary_checks.knowledge.library_names import is_grafted_path
from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.loader import Answers, Loader, ObjectT, SearchPath
from binary_checks.model import (
    SPECIAL_BUILDS,
    Edge,
    Interpreter,
    Kind,
    MistypedFunction,
    ObjectFile,
    Rule,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
    is_extension,
)
from binary_checks.watchdog import ask

# The interpreter that imports an extension module.


_OF_CPYTHON = re.compile(r"\.cp(?:ython-)?(?P<version>3\d{1,2})(?P<flags>[a-z]*)[-.]")


def python_of(library: ObjectFile, target: TargetSystem) -> Interpreter | None:
    """Return the interpreter that imports a library; None without data on it.

    A wheel may contain a module for each version of CPython: only 3.10 imports
    ``_c.cpython-310-….so``, regardless of the tags, and the package's own code opens
    ``_c.cp310-arm64.so`` only there (mssql_python 1.16.0).
    """
    match = _OF_CPYTHON.search(library.file_name)
    if match is None:
        return target.interpreter
    wanted = (int(match["version"][0]), int(match["version"][1:])), "t" in match["flags"]
    python = target.interpreter
    is_cpython = python is not None and python.implementation == "cpython"
    if python and is_cpython and (python.version, python.free_threaded) == wanted:
        return python
    return target.interpreters.get(wanted)


# One root in a fresh process, loaded as by the loader: breadth first, in order.


@dataclass(frozen=True, kw_only=True, slots=True)
class Image(Generic[ObjectT]):
    """The final state of one process."""

    root: ObjectT
    objects: tuple[ObjectT, ...]  # in load order, the root first
    # results for the needs of each object, including objects of other packages
    answers: tuple[Answers, ...]
    system: tuple[str, ...]  # libraries of the system in scope
    unread: tuple[str, ...]  # files that were found but could not be read
    # labels of loaded libraries, by the key under which they are looked up
    loaded: Mapping[str, str]

    @property
    def edges(self) -> Iterator[Edge]:
        """All edges of all objects, in the order of searching."""
        return (edge for answers in self.answers for edge in answers.edges)

    @property
    def outside(self) -> Iterator[Edge]:
        """The edges that do not lead to an object of the layout."""
        return (edge for answers in self.answers for edge in answers.outside)

    @property
    def python(self) -> bool:
        """Whether the process is an interpreter instead of an executable of the package."""
        return self.root.kind is Kind.SHARED


def load(
    root: ObjectT, loader: Loader[ObjectT], before: Mapping[str, str] | None = None
) -> Image[ObjectT]:
    """Load a root and everything that it needs.

    ``before`` are the libraries that the process has already loaded, in the form of `Image.loaded`.
    """
    return _Process(root, loader, before or {}).run()


class _Process(Generic[ObjectT]):
    """A process during loading."""

    def __init__(self, root: ObjectT, loader: Loader[ObjectT], before: Mapping[str, str]) -> None:
        self.root, self.loader, self.before = root, loader, before
        # labels of loaded libraries, by the key under which they are looked up
        self.loaded: dict[str, str] = {}
        self.bits = 0  # the bits of all loaded libraries, from `Searches.bit`
        self.system: list[str] = []
        self.objects: dict[str, ObjectT] = {}
        self.unread: list[str] = []
        self.answers: list[Answers] = []
        self.queue: deque[tuple[ObjectT, SearchPath]] = deque()

    def run(self) -> Image[ObjectT]:
        if self.root.kind is Kind.SHARED:
            self.begin_as_python()
        self.add(self.root, "", self.loader.begin(self.root))
        while self.queue:
            ask()
            self.answers.append(self.satisfy(*self.queue.popleft()))
        indirect = (other for name in self.system for other in self.loader.system_needs(name))
        return Image(
            root=self.root,
            objects=tuple(self.objects.values()),
            answers=tuple(self.answers),
            system=tuple(dict.fromkeys((*self.system, *indirect))),
            unread=tuple(dict.fromkeys(self.unread)),
            loaded=self.loaded,
        )

    def begin_as_python(self) -> None:
        for name, label in self.loader.preloaded().items():
            self.call(name, label)
            origin, _, library = label.partition(":")
            if origin == "system":
                self.system.append(library)

    def call(self, name: str, label: str) -> None:
        """Record that a label is loaded under a name, unless the name is already taken."""
        if self.loaded.setdefault(name, label) is label:
            self.bits |= self.loader.searches.bit(name, label)

    def add(self, library: ObjectT, requested: str, handed: SearchPath) -> None:
        """Map a library and queue it: its needs come after those of libraries mapped earlier."""
        self.objects[library.path] = library
        self.queue.append((library, self.loader.hand_down(library, handed)))
        for name in self.loader.answers_to(library, requested):
            self.call(name, self.loader.layout.label(library.path))

    def satisfy(self, library: ObjectT, handed: SearchPath) -> Answers:
        """Search for the needs of a library, and load those that are not loaded yet."""
        search = self.loader.searches.needs_of(library, handed, self.root.path)
        if search.loaded is not None and not search.loaded & ~self.bits:
            return search.answers  # the usual case: all needs are loaded already
        usual = search.answers.edges
        ends = zip(usual, search.names, search.libraries, strict=True)
        edges = tuple(self.meet(*end, handed) for end in ends)
        return search.answers if all(map(operator.is_, edges, usual)) else Answers(edges)

    def meet(self, edge: Edge, name: str, library: ObjectT | None, handed: SearchPath) -> Edge:
        """Return the edge of a need; load the library if no loaded library has that name."""
        loaded = self.loaded.get(name)
        if edge.delayed:
            return edge
        first = self.before.get(name) if name else None
        if loaded is None and first is not None:
            architecture = self.root.architecture
            library, loaded = self.loader.layout.fitting(first, architecture), first
            self.take(replace(edge, resolved=first), name, library, handed)
        if loaded is None:
            self.take(edge, name, library, handed)
        elif loaded != edge.resolved:
            return replace(
                edge,
                resolved=loaded,
                rule=Rule.LOADED_FIRST if loaded == first else Rule.LOADED,
                shadowed=edge.resolved,
                elsewhere=(),
                unknown="",
            )
        return edge

    def take(self, edge: Edge, name: str, library: ObjectT | None, handed: SearchPath) -> None:
        if edge.resolved is None:
            return
        if name:
            self.call(name, edge.resolved)
        origin, _, system = edge.resolved.partition(":")
        if library is not None:
            if library.path not in self.objects:
                self.add(library, edge.needed, handed)
        elif origin == "system":
            self.system.append(system)
        elif origin != "python":
            self.unread.append(edge.resolved)


# Libraries loaded before a root, because the code that loads the root loads them first.

_OUTSIDE_OF_IT = ("system:", "python:")


class FirstLoads(Generic[ObjectT]):
    """The libraries loaded before each root, with their needs; kept for all roots."""

    def __init__(self, loader: Loader[ObjectT], loads: Mapping[str, tuple[str, ...]]) -> None:
        """Store ``loads``, which maps each root to the labels of objects loaded before it."""
        self._loader, self._loads = loader, loads
        self._known: dict[tuple[str, tuple[str, ...]], Mapping[str, str]] = {}

    def before(self, root: ObjectT) -> Mapping[str, str]:
        """Return the libraries that Python has loaded before the root: labels by key.

        An executable runs in a process of its own, in which nothing is loaded before it.
        """
        loads = self._loads.get(root.path)
        if not loads or root.kind is not Kind.SHARED:
            return {}
        key = root.architecture, loads
        if key not in self._known:
            self._known[key] = self._load(root.architecture, loads)
        return self._known[key]

    def _load(self, architecture: str, loads: tuple[str, ...]) -> Mapping[str, str]:
        names: dict[str, str] = {}
        for each in loads:
            item = self._loader.layout.fitting(each, architecture)
            if item is None:
                continue
            for name, label in load(item, self._loader, names).loaded.items():
                if not label.startswith(_OUTSIDE_OF_IT):
                    names.setdefault(name, label)
        return names


# Roots of a package: objects that are loaded directly instead of as needs of other objects.


@dataclass(frozen=True, kw_only=True, slots=True)
class Loadings(Generic[ObjectT]):
    """The processes that a package is loaded into."""

    roots: tuple[Image[ObjectT], ...]
    # processes of grafted libraries that are not loaded through any root
    orphans: tuple[Image[ObjectT], ...]
    unreached: tuple[str, ...]  # paths of all libraries in these processes


def load_roots(
    objects: Iterable[ObjectT], loader: Loader[ObjectT], first: FirstLoads[ObjectT]
) -> Loadings[ObjectT]:
    """Load every root into a separate process, then the libraries that no root loads.

    A root is an extension module, an executable, or a library that no object of the package needs
    by name. If a library is not loaded by any of these roots, it becomes a root, too, since
    something must open it (libc10.so, if the objects that need it search elsewhere). Grafted
    libraries are never roots: if no root loads them, they are orphans.
    """
    libraries = tuple(objects)

    def open_one(root: ObjectT) -> Image[ObjectT]:
        return load(root, loader, first.before(root))

    wanted = _Wanted(libraries, loader)
    roots = tuple(open_one(item) for item in libraries if _is_evident(item, wanted))
    rest = _not_reached(libraries, roots)
    ungrafted = [item for item in rest if not is_grafted_path(item.path)]
    later = tuple(_load_rest(ungrafted, open_one, _Wanted(ungrafted, loader)))
    unreached = _not_reached(rest, later)
    return Loadings(
        roots=tuple(sorted((*roots, *later), key=lambda image: image.root.path)),
        orphans=tuple(_load_rest(unreached, open_one, _Wanted(unreached, loader))),
        unreached=tuple(item.path for item in unreached),
    )


class _Wanted:
    """The names that some libraries need, in normalised form."""

    def __init__(self, libraries: Iterable[ObjectT], loader: Loader[ObjectT]) -> None:
        self._names_of, spell = loader.layout.names_of, loader.layout.normalise_name
        self._names = {spell(need.name) for item in libraries for need in item.needed}

    def __contains__(self, library: ObjectFile) -> bool:
        return not self._names.isdisjoint(self._names_of(library))


def _is_evident(library: ObjectFile, wanted: _Wanted) -> bool:
    if library.kind is Kind.EXECUTABLE:
        return True
    if is_grafted_path(library.path):
        return False
    return is_extension(library) or library not in wanted


def _not_reached(libraries: Iterable[ObjectT], images: Iterable[Image[ObjectT]]) -> list[ObjectT]:
    reached = {item.path for image in images for item in image.objects}
    return [library for library in libraries if library.path not in reached]


def _load_rest(
    rest: list[ObjectT], open_one: Callable[[ObjectT], Image[ObjectT]], wanted: _Wanted
) -> Iterator[Image[ObjectT]]:
    """Load the remaining libraries one by one, first the libraries that no other one needs."""
    reached: set[str] = set()
    for item in sorted(rest, key=lambda item: item in wanted):
        if item.path not in reached:
            image = open_one(item)
            reached.update(other.path for other in image.objects)
            yield image


# Undefined symbols, and tests for symbols that look like Python's.


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookups:
    """The results for all undefined symbols."""

    unresolved: tuple[UnresolvedSymbol, ...]
    unexplored: tuple[UnexploredSymbols, ...]
    # (system library without export data, number of symbols that it may define).
    unknown_exports: tuple[tuple[str, int], ...] = ()
    mistyped: tuple[MistypedFunction, ...] = ()


class Unresolved(Generic[ObjectT]):
    """Collects the symbols that nothing in scope defines, and finds other objects that define them.

    Each of thousands of objects may lack the same symbol, so the layout is searched once for all of
    them.
    """

    def __init__(self, layout: FileLayout[ObjectT]) -> None:
        self._layout = layout
        self._found: dict[tuple[str, str, str, str], tuple[UnresolvedSymbol, str]] = {}

    def add(self, item: UnresolvedSymbol, architecture: str, *, asked: str = "") -> None:
        """Add a symbol that an object lacks, unless another process already reported it."""
        key = (item.path, item.architecture, item.name, asked)
        self._found.setdefault(key, (item, architecture))

    def list_all(self) -> tuple[UnresolvedSymbol, ...]:
        """Return the symbols that were added, each with an object out of scope that defines it."""
        names: dict[str, set[str]] = {}
        for item, architecture in self._found.values():
            if not item.provider:
                names.setdefault(architecture, set()).add(item.name)
        definers = {each: self._layout.definers(frozenset(names[each]), each) for each in names}
        return tuple(
            item
            if item.provider
            else replace(item, elsewhere=definers[architecture].get(item.name, ""))
            for _, (item, architecture) in sorted(self._found.items(), key=itemgetter(0))
        )


def find_own_python_symbols(
    images: Iterable[Image[ObjectT]], layout: FileLayout[ObjectT]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return, for each object, symbols of Python's C API that an object loaded with it defines.

    libshiboken6 has its own PyRun_String, so that PySide6 can use the stable ABI.
    """
    images = tuple(images)
    objects = {item.path: item for image in images for item in image.objects}
    own = {path: item for path, item in objects.items() if layout.is_own(item)}
    wanted = {name for item in own.values() for name in item.imports.names if is_pythons(name)}
    offered = {path: names for path, i in objects.items() if (names := i.exports.among(wanted))}
    found: dict[str, set[str]] = {}
    for image in images if offered else ():
        defined = {name for item in image.objects for name in offered.get(item.path, ())}
        for item in image.objects if defined else ():
            if item.path in own and (names := item.imports.among(defined)):
                found.setdefault(item.path, set()).update(names)
    return tuple((path, tuple(sorted(names))) for path, names in sorted(found.items()))


def is_pythons(name: str) -> bool:
    """Return whether a name has the form of names in Python's C API."""
    return name.startswith(_OF_PYTHON) and not name.startswith(_OF_MODULES)


_OF_PYTHON = ("Py", "_Py", "GraalPy", "_GraalPy")  # GraalPyTuple_GET_ITEM: ujson 6.1.0
_OF_MODULES = ("PyInit", "PyModExport")


def may_be_exported(name: str, python: Interpreter | None) -> bool:
    """Return whether a Python may have a name that is not among its known exports.

    None is a Python with unknown exports. Plain builds lack some names.
    """
    if python is not None and python.complete and name not in python.unsure:
        return False
    return is_pythons(name) and name not in SPECIAL_BUILDS
