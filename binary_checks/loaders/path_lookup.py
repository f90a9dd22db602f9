"""Looks a name up in a search path: as many steps as there are files of that name, not directories.

One object may name thousands of directories and need thousands of libraries, and hand its
directories down to all that it loads. So the directories are asked by name: a layout knows which
of them have a file of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from itertools import chain
from typing import Any

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.loader import Directory, ObjectT, Steps

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
