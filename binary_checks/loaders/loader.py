"""How every system's loader looks for what an object needs: places, search paths, answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from binary_checks.errors import TooLarge
from binary_checks.loaders.file_layout import FileLayout
from binary_checks.model import Dependency, Edge, ElfFile, ObjectFile, Rule, TargetSystem
from binary_checks.model.linkage import expand

# What every system's loader is asked while objects are loaded, and where it looks for them.

ObjectT = TypeVar("ObjectT", bound=ObjectFile)

_MOST_STEPS = 4_000_000
"""What takes some ten seconds; of the largest packages it takes a hundredth of that."""


class Directory(NamedTuple):
    """One directory that a loader looks into."""

    directory: str | None  # relative to the prefix; None where no package can have a file
    rule: Rule  # by which what is found there is found
    absolute: str = ""  # a directory of the user's machine, where that may be the system's own


def places(elements: Iterable[str], rule: Rule, owner: ElfFile) -> tuple[Directory, ...]:
    """Expand the elements of a search path of ``owner``, in order."""
    return tuple(Directory(directory=expand(element, owner), rule=rule) for element in elements)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult(Generic[ObjectT]):
    """Where one search ended."""

    resolved: str | None = None
    rule: Rule = Rule.MISSING
    searched: tuple[str, ...] = ()
    library: ObjectT | None = None
    unknown: str = ""  # why it cannot be said whether the library is there
    partly: str = ""  # which of the promised systems alone have it


class Steps:
    """Counts what is done to load a package's objects: a few hundred bytes may ask for hours."""

    def __init__(self, factor: int = 1) -> None:
        self._most, self._taken = factor * _MOST_STEPS, 0

    def count(self, steps: int) -> None:
        """Count so many steps. Raises TooLarge where they are more than are ever taken."""
        self._taken += steps
        if self._taken > self._most:
            raise TooLarge(
                "to load its objects, each in a process of its own with all that it needs, takes "
                f"more than {self._most} steps"
            )


class Loader(Protocol[ObjectT]):
    """How one system's loader names, finds and keeps what it loads."""

    @property
    def layout(self) -> FileLayout[ObjectT]:
        """Where everything lies."""

    @property
    def target(self) -> TargetSystem:
        """The system that it is the loader of."""

    def begin(self, root: ObjectT) -> SearchPath:
        """The places that a process looks into for whatever the loading of the root needs."""

    def hand_down(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """The places for a library's needs and its descendants', those for itself being given."""

    def search(self, library: ObjectT, handed: SearchPath) -> SearchPath:
        """The places in which a library's own needs are looked for."""

    def find(self, library: ObjectT, name: str, places: SearchPath) -> SearchResult[ObjectT]:
        """What a needed name means to a library with those places."""

    def called(self, name: str) -> str:
        """How a needed name is asked for among what is loaded; "" if by its place alone."""

    def answers_to(self, library: ObjectT, requested: str) -> Iterable[str]:
        """The names, as ``called`` gives them, that a library satisfies once it is loaded."""

    def preloaded(self) -> Mapping[str, str]:
        """What a Python process has from the start: by name, ``system:`` or ``python:`` and it."""

    def symbol_prefixes(self, library: str) -> tuple[str, ...]:
        """What a system library's symbols begin with, and nobody else's: it has no export data."""

    def system_needs(self, name: str) -> Iterable[str]:
        """What a library of the system has with it wherever it comes from."""

    @property
    def steps(self) -> Steps:
        """What was done so far."""

    @property
    def searches(self) -> Searches[ObjectT]:
        """What was looked for already."""


# Looking a name up in a search path takes as many steps as there are files of that name, not
# directories.
#
# One object may name thousands of directories and need thousands of libraries, and hand its
# directories down to all that it loads. So the directories are asked by name: a layout knows which
# of them have a file of that name.

_STEPS_OF_A_LOOK = 4  # to look into a directory, where to name one takes a step
_CHARACTERS = 16  # of a directory's name that are spelled in one step


class SearchPath:
    """The directories that a loader looks into for the needs of one object, in their order.

    They are the object's own, and then those of ``above``, which were handed down to it.
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
        """Where the program lies into which all is loaded, on macOS."""
        self._paths = paths
        self._searched: dict[Directory, tuple[str, ...]] = {}
        self._others: dict[str, tuple[str, ...]] = {}

    def having(
        self, name: str, also: Collection[str] = (), absolute: Collection[str] = ()
    ) -> Iterator[Directory]:
        """The directories in which a file of that name may lie, in their order.

        With them come the directories ``also`` and, of the user's machine, those of ``absolute``.
        """
        folders = self._paths.layout.folders_with(name)
        if folders is not None:
            folders = {*folders, *also} if also else folders
            if not (folders or absolute):
                return
        for part in self._parts():
            if folders is None:
                self._paths.count(_STEPS_OF_A_LOOK * len(part.own))
                yield from (
                    each for each in part.own if each.directory is not None or each.absolute
                )
            else:
                self._paths.count(1)
                found = (*_meet(part.places, folders), *_meet(part.absolute, absolute))
                yield from (part.own[place] for place in sorted(found))

    def searched(self, last: Directory) -> tuple[str, ...]:
        """The directories of the prefix that are searched up to that one, each once."""
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
        self._paths.count(sum(map(len, passed)))
        return tuple(dict.fromkeys(chain.from_iterable(passed))) if passed[1:] else passed[0]

    @cached_property
    def directories(self) -> tuple[str, ...]:
        """All directories of the prefix that are searched, each once."""
        if self.above is None:
            return self.named
        parts = [part.named for part in self._parts()]
        self._paths.count(sum(map(len, parts)))
        return tuple(dict.fromkeys(chain.from_iterable(parts)))

    def without(self, directory: str) -> tuple[str, ...]:
        """All directories but that one."""
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
        """Its own directories of the prefix, each once."""
        return tuple(
            dict.fromkeys(each.directory for each in self.own if each.directory is not None)
        )

    @cached_property
    def ordinals(self) -> dict[Directory, int]:
        """For each of its own, how many directories of the prefix are searched with it."""
        seen: set[str] = set()
        found: dict[Directory, int] = {}
        for each in self.own:
            if each.directory is not None:
                seen.add(each.directory)
            found.setdefault(each, len(seen))
        return found

    @cached_property
    def places(self) -> dict[str, int]:
        """By where a directory lies behind links, the first place of it among its own."""
        found: dict[str, int] = {}
        for place, each in enumerate(self.own):
            if each.directory is not None:
                found.setdefault(self._paths.layout.real_folder(each.directory), place)
        return found

    @cached_property
    def absolute(self) -> dict[str, int]:
        """The same of directories of the user's machine."""
        found: dict[str, int] = {}
        for place, each in enumerate(self.own):
            if each.absolute:
                found.setdefault(each.absolute.rstrip("/"), place)
        return found


def _meet(places: dict[str, int], wanted: Collection[str]) -> list[int]:
    """The places of the directories that are wanted: as many steps as there are of the fewer."""
    if len(wanted) < len(places):
        return [places[each] for each in wanted if each in places]
    return [place for each, place in places.items() if each in wanted]


class SearchPaths:
    """Makes the search paths of a layout, each once, within bounds."""

    def __init__(self, layout: FileLayout[Any], steps: Steps) -> None:
        self.layout, self.count = layout, steps.count
        self._known: dict[tuple[tuple[Directory, ...], int, str | None], SearchPath] = {}
        self._handed: dict[tuple[int, int], SearchPath] = {}
        self.empty = self.make(())

    def make(
        self,
        own: tuple[Directory, ...],
        above: SearchPath | None = None,
        program: str | None = None,
    ) -> SearchPath:
        """Make the search path of these directories and those above. Raises TooLarge."""
        if above is not None and own == above.own:
            return above  # libraries of one folder name it, as all do that load them
        key = own, id(above), program
        if key not in self._known:
            self.count(sum(1 + len(each.directory or "") // _CHARACTERS for each in own))
            self._known[key] = SearchPath(own, above, program, self)
        return self._known[key]

    def extend(
        self,
        library: ObjectT,
        own: Callable[[ObjectT], tuple[Directory, ...]],
        handed: SearchPath,
    ) -> SearchPath:
        """Put the directories that a library adds before those that were handed down to it."""
        key = (id(library), id(handed))
        if key not in self._handed:
            added = tuple(dict.fromkeys(own(library)))
            above = handed if handed.own or handed.above else None
            made = self.make(added, above, handed.program) if added else handed
            self._handed[key] = made
        return self._handed[key]


# What the needs of objects come to, found out once however many processes ask.

_OUTSIDE = ("system:", "python:")
_BITS = 4096
"""Names that are told apart by bits: the more there are, the less a process has of them."""


class Answers:
    """What all needs of one object come to; shared by all processes in which that is the same.

    In a package of 800 objects that need each other there are 640,000 edges a process.
    """

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.edges = edges

    @cached_property
    def by_name(self) -> Mapping[str, Edge]:
        """The edges by what is needed."""
        return {edge.needed: edge for edge in self.edges}

    @cached_property
    def resolved(self) -> Mapping[str, str | None]:
        """By what is needed: what it comes to."""
        return {edge.needed: edge.resolved for edge in self.edges}

    @cached_property
    def outside(self) -> tuple[Edge, ...]:
        """Those that lead to nothing, or to the system's libraries or Python's."""
        return tuple(e for e in self.edges if (e.resolved or _OUTSIDE[0]).startswith(_OUTSIDE))

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """What the others lead to: objects of the layout."""
        outside = frozenset(edge.resolved for edge in self.outside)
        found = (edge.resolved for edge in self.edges if edge.resolved not in outside)
        return tuple(dict.fromkeys(label for label in found if label))


class Search(Generic[ObjectT]):
    """The needs of one object, each looked for as if nothing had been loaded before."""

    def __init__(
        self,
        answers: Answers,
        names: tuple[str, ...],
        libraries: tuple[ObjectT | None, ...],
        loaded: int | None,
    ) -> None:
        self.answers = answers
        self.names = names  # by which each is asked for among what is loaded
        self.libraries = libraries  # that each leads to
        self.loaded = loaded
        """What must be loaded for the answers to stand, in bits; None where they cannot tell."""


class Searches(Generic[ObjectT]):
    """Remembers each search: it depends on the places alone, not on the process."""

    def __init__(self, loader: Loader[ObjectT]) -> None:
        self._loader = loader
        self._known: dict[tuple[int, int], Search[ObjectT]] = {}
        self._bits: dict[tuple[str, str], int] = {}

    def bit(self, name: str, label: str) -> int:
        """The bit that says of a process: what has that name in it is that. 0 where it has none."""
        if (name, label) not in self._bits:
            self._bits[name, label] = 1 << len(self._bits) if len(self._bits) < _BITS else 0
        return self._bits[name, label]

    def needs_of(self, library: ObjectT, handed: SearchPath, root: str) -> Search[ObjectT]:
        """What a library needs, with the places that were handed down to it.

        The edges have the root for which they were found first.
        """
        key = (id(library), id(handed))  # to hash an object would be to hash all its symbols
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
    """Each needed name once: a need at load counts before one at the first call."""
    needs: dict[str, Dependency] = {}
    for need in sorted(library.needed, key=lambda need: need.delayed):
        needs.setdefault(need.name, need)
    return tuple(needs.values())
