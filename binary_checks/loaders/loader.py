"""The common parts of all systems' loaders: directories, search paths and results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.model import Dependency, Edge, ElfFile, ObjectFile, Rule, TargetSystem, expand

# The functions of a loader.

ObjectT = TypeVar("ObjectT", bound=ObjectFile)


class Directory(NamedTuple):
    """One directory that a loader searches."""

    directory: str | None  # relative to the prefix; None if no package can have a file there
    rule: Rule  # the rule reported for a file found in the directory
    # the directory on the user's machine, if it may be a directory of the system
    absolute: str = ""


def places(elements: Iterable[str], rule: Rule, owner: ElfFile) -> tuple[Directory, ...]:
    """Expand the elements of a search path of ``owner``, in order."""
    return tuple(Directory(directory=expand(element, owner), rule=rule) for element in elements)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult(Generic[ObjectT]):
    """The result of looking for one needed name."""

    resolved: str | None = None
    rule: Rule = Rule.MISSING
    searched: tuple[str, ...] = ()
    library: ObjectT | None = None
    unknown: str = ""  # why the presence of the library is unknown
    partly: str = ""  # the promised systems that have the library, if not all do


class Loader(ABC, Generic[ObjectT]):
    """One system's loader for one layout: how it names and finds libraries."""

    def __init__(self, layout: FileLayout[ObjectT], target: TargetSystem) -> None:
        self.layout = layout
        self.target = target
        self.searches = Searches(self)
        self._paths = SearchPaths(layout)

    @abstractmethod
    def begin(self, root: ObjectT) -> SearchPath:
        """Return the directories that a process searches for everything that the root needs."""

    @abstractmethod
    def hand_down(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """Return the directories to search for a library's direct and indirect needs.

        ``handed`` are the directories that the library itself was handed down.
        """

    @abstractmethod
    def search(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """Return the directories for a library's own needs."""

    @abstractmethod
    def find(self, library: ObjectT, name: str, places: SearchPath) -> SearchResult[ObjectT]:
        """Look for a needed name of a library in these directories."""

    @abstractmethod
    def called(self, name: str) -> str:
        """Return the key of a needed name among loaded libraries; "" if only its path counts."""

    @abstractmethod
    def answers_to(self, library: ObjectT, requested: str) -> Iterable[str]:
        """Return the keys, as from ``called``, that a library satisfies once it is loaded."""

    @abstractmethod
    def preloaded(self) -> Mapping[str, str]:
        """Return the libraries that a Python process has loaded from the start.

        Values are labels (``system:NAME``, ``python:NAME``), keys are names.
        """

    def symbol_prefixes(self, library: str) -> tuple[str, ...]:
        """Return prefixes of symbols that belong only to this system library.

        They are used for libraries without export data, which only macOS has: elsewhere an import
        names its library, or matches by version.
        """
        del library
        return ()

    def never_flat(self, library: ObjectT) -> Collection[str]:
        """Return system libraries that cannot define symbols which the object binds to none."""
        del library
        return ()

    def system_needs(self, name: str) -> Iterable[str]:
        """Return the needs of a system library, regardless of its folder.

        Only ELF looks symbols up in libraries that the object itself does not need.
        """
        del name
        return ()


# Search paths. One object may name thousands of directories, need thousands of libraries, and hand
# its directories down to all its needs. A search therefore does not visit the directories one by
# one: the layout knows which folders contain a file with a given name, and only these are visited.


class SearchPath:
    """The directories that a loader searches for the needs of one object, in order.

    The object's own directories come first, then the directories of ``above``, which were handed
    down to the object.
    """

    def __init__(
        self,
        own: tuple[Directory, ...],
        above: SearchPath | None,
        program: str | None,
        paths: SearchPaths,
    ) -> None:
        self.own, self.above = own, above
        self.program = program
        """On macOS, the directory of the program into which everything is loaded."""
        self._paths = paths
        self._searched: dict[Directory, tuple[str, ...]] = {}
        self._others: dict[str, tuple[str, ...]] = {}

    def having(
        self, name: str, also: Collection[str] = (), absolute: Collection[str] = ()
    ) -> Iterator[Directory]:
        """Yield the directories that may contain a file with this name, in order.

        Directories in ``also``, and directories of the user's machine in ``absolute``, are
        included, too.
        """
        folders = self._paths.layout.folders_with(name)
        if folders is not None:
            folders = {*folders, *also} if also else folders
            if not (folders or absolute):
                return
        for part in self._parts():
            if folders is None:
                yield from (
                    each for each in part.own if each.directory is not None or each.absolute
                )
            else:
                found = (*_meet(part.places, folders), *_meet(part.absolute, absolute))
                yield from (part.own[place] for place in sorted(found))

    def searched(self, last: Directory) -> tuple[str, ...]:
        """Return the directories of the prefix searched up to this one, without duplicates."""
        if last not in self._searched:
            self._searched[last] = self._list_up_to(last)
        return self._searched[last]

    def _list_up_to(self, last: Directory) -> tuple[str, ...]:
        passed: list[tuple[str, ...]] = []
        for part in self._parts():
            if last in part.ordinals:
                passed.append(part.named[: part.ordinals[last]])
                break
            passed.append(part.named)
        return tuple(dict.fromkeys(chain.from_iterable(passed))) if passed[1:] else passed[0]

    @cached_property
    def directories(self) -> tuple[str, ...]:
        """All directories of the prefix that are searched, without duplicates."""
        if self.above is None:
            return self.named
        parts = [part.named for part in self._parts()]
        return tuple(dict.fromkeys(chain.from_iterable(parts)))

    def without(self, directory: str) -> tuple[str, ...]:
        """Return all directories of the prefix except this one."""
        if directory not in self._others:
            others = tuple(each for each in self.directories if each != directory)
            self._others[directory] = others
        return self._others[directory]

    def _parts(self) -> Iterator[SearchPath]:
        part: SearchPath | None = self
        while part is not None:
            yield part
            part = part.above

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The object's own directories of the prefix, without duplicates."""
        return tuple(
            dict.fromkeys(each.directory for each in self.own if each.directory is not None)
        )

    @cached_property
    def ordinals(self) -> dict[Directory, int]:
        """Own directory -> number of directories of the prefix that are searched up to it."""
        seen: set[str] = set()
        found: dict[Directory, int] = {}
        for each in self.own:
            if each.directory is not None:
                seen.add(each.directory)
            found.setdefault(each, len(seen))
        return found

    @cached_property
    def places(self) -> dict[str, int]:
        """Path of each own directory, with links resolved -> its first position."""
        found: dict[str, int] = {}
        for place, each in enumerate(self.own):
            if each.directory is not None:
                found.setdefault(self._paths.layout.real_folder(each.directory), place)
        return found

    @cached_property
    def absolute(self) -> dict[str, int]:
        """Path of each own directory on the user's machine -> its first position."""
        found: dict[str, int] = {}
        for place, each in enumerate(self.own):
            if each.absolute:
                found.setdefault(each.absolute.rstrip("/"), place)
        return found


def _meet(places: dict[str, int], wanted: Collection[str]) -> list[int]:
    """Return the positions of the wanted directories, iterating over the smaller collection."""
    if len(wanted) < len(places):
        return [places[each] for each in wanted if each in places]
    return [place for each, place in places.items() if each in wanted]


class SearchPaths:
    """Makes the search paths of a layout, each only once."""

    def __init__(self, layout: FileLayout[Any]) -> None:
        self.layout = layout
        self._known: dict[tuple[tuple[Directory, ...], int, str | None], SearchPath] = {}
        self._handed: dict[tuple[int, int], SearchPath] = {}
        self.empty = self.make(())

    def make(
        self,
        own: tuple[Directory, ...],
        above: SearchPath | None = None,
        program: str | None = None,
    ) -> SearchPath:
        """Return the search path of these directories, followed by ``above``."""
        if above is not None and own == above.own:
            # Libraries in one folder name the same directories as the object that needs them.
            return above
        key = own, id(above), program
        if key not in self._known:
            self._known[key] = SearchPath(own, above, program, self)
        return self._known[key]

    def extend(
        self,
        library: ObjectT,
        own: Callable[[ObjectT], tuple[Directory, ...]],
        handed: SearchPath,
    ) -> SearchPath:
        """Return the directories that a library adds, followed by those handed down to it."""
        key = (id(library), id(handed))
        if key not in self._handed:
            added = tuple(dict.fromkeys(own(library)))
            above = handed if handed.own or handed.above else None
            made = self.make(added, above, handed.program) if added else handed
            self._handed[key] = made
        return self._handed[key]


# Results of searching for the needs of objects, kept for all processes.

_OUTSIDE = ("system:", "python:")
_BITS = 4096
"""Limit on the names that are represented by bits; further names are compared one by one."""


class Answers:
    """The results for all needs of one object, shared by all processes with the same results.

    In a package of 800 objects that need each other, each process has 640,000 edges.
    """

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.edges = edges

    @cached_property
    def by_name(self) -> Mapping[str, Edge]:
        """The edges by needed name."""
        return {edge.needed: edge for edge in self.edges}

    @cached_property
    def resolved(self) -> Mapping[str, str | None]:
        """Needed name -> label of the library found."""
        return {edge.needed: edge.resolved for edge in self.edges}

    @cached_property
    def outside(self) -> tuple[Edge, ...]:
        """The edges to missing libraries, or to libraries of the system or of Python."""
        return tuple(e for e in self.edges if (e.resolved or _OUTSIDE[0]).startswith(_OUTSIDE))

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """The objects of the layout to which edges lead."""
        outside = frozenset(edge.resolved for edge in self.outside)
        found = (edge.resolved for edge in self.edges if edge.resolved not in outside)
        return tuple(dict.fromkeys(label for label in found if label))


class Search(Generic[ObjectT]):
    """The results for all needs of one object, if nothing was loaded before."""

    def __init__(
        self,
        answers: Answers,
        names: tuple[str, ...],
        libraries: tuple[ObjectT | None, ...],
        loaded: int | None,
    ) -> None:
        self.answers = answers
        self.names = names  # the key of each need among loaded libraries
        self.libraries = libraries  # the object that each need leads to, or None
        self.loaded = loaded
        """Bits of the libraries that must be loaded for these answers to be valid unchanged; None
        if bits cannot represent them.
        """


class Searches(Generic[ObjectT]):
    """A cache of searches; their results depend on directories, not on the process."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._known: dict[tuple[int, int], Search[ObjectT]] = {}
        self._bits: dict[tuple[str, str], int] = {}

    def bit(self, name: str, label: str) -> int:
        """Return the bit for "label is loaded under this name"; 0 if there are too many names."""
        if (name, label) not in self._bits:
            self._bits[name, label] = 1 << len(self._bits) if len(self._bits) < _BITS else 0
        return self._bits[name, label]

    def needs_of(self, library: ObjectT, handed: SearchPath, root: str) -> Search[ObjectT]:
        """Search for a library's needs, also in the directories handed down to it.

        Results are kept: a later root gets the same edges, which name the first root.
        """
        key = (id(library), id(handed))  # hashing an object would hash all its symbols
        if key not in self._known:
            self._known[key] = self._search(library, handed, root)
        return self._known[key]

    def _search(self, library: ObjectT, handed: SearchPath, root: str) -> Search[ObjectT]:
        loader = self._loader
        places = loader.search(library, handed)
        edges: list[Edge] = []
        libraries: list[ObjectT | None] = []
        for need in _each_once(library):
            end = loader.find(library, need.name, places)
            edges.append(self._make_edge(library, need, end, root))
            libraries.append(end.library)
        names = tuple(loader.called(edge.needed) for edge in edges)
        loaded = self._sum_up(edges, names)
        return Search(Answers(tuple(edges)), names, tuple(libraries), loaded)

    def _sum_up(self, edges: Iterable[Edge], names: Iterable[str]) -> int | None:
        loaded = 0
        for edge, name in zip(edges, names, strict=True):
            bit = self.bit(name, edge.resolved) if name and edge.resolved else 0
            if not bit and not edge.delayed:
                return None
            loaded |= 0 if edge.delayed else bit
        return loaded

    def _make_edge(
        self, library: ObjectT, need: Dependency, end: SearchResult[ObjectT], root: str
    ) -> Edge:
        layout = self._loader.layout
        return Edge(
            path=library.path,
            architecture=library.architecture,
            needed=need.name,
            resolved=end.resolved,
            rule=end.rule,
            root=root,
            searched=end.searched,
            elsewhere=() if end.resolved else layout.elsewhere(need.name, library),
            weak=need.weak,
            delayed=need.delayed,
            unknown=end.unknown,
            partly=end.partly,
        )


def _each_once(library: ObjectT) -> tuple[Dependency, ...]:
    """Return each needed name only once; a need at load comes before a need at the first call."""
    needs: dict[str, Dependency] = {}
    for need in sorted(library.needed, key=lambda need: need.delayed):
        needs.setdefault(need.name, need)
    return tuple(needs.values())
