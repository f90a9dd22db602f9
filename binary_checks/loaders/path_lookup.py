"""Looks a name up in a search path: as many steps as there are files of that name, not directories.

One object may name thousands of directories and need thousands of libraries, and hand its
directories down to all that it loads. So the directories are asked by name: a layout knows which
of them have a file of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.loader import Directory, ObjectT, Steps

_STEPS_OF_A_LOOK = 4  # to look into a directory, where to name one takes a step
_CHARACTERS = 16  # of a directory's name that are spelled in one step


class SearchPath:
    """The directories that a loader looks into for the needs of one object, in their order."""

    def __init__(
        self, elements: tuple[Directory, ...], program: str | None, paths: SearchPaths
    ) -> None:
        self.elements = elements
        self.program = program
        """Where the program lies into which all is loaded, on macOS."""
        self._paths = paths
        self._places: dict[str, Directory] = {}  # of several elements, the first
        self.absolute: dict[str, int] = {}
        """Directories of the user's machine, and how many of the package's come before each."""
        for each in elements:
            if each.absolute:
                self.absolute.setdefault(each.absolute.rstrip("/"), len(self._places))
            if each.directory is not None:
                self._places.setdefault(each.directory, each)
        self.directories = tuple(self._places)
        self._beginnings: dict[int, tuple[str, ...]] = {}
        self._others: dict[str, tuple[str, ...]] = {}

    def having(self, name: str) -> Iterator[tuple[int, Directory]]:
        """The directories in which a file of that name may lie, and their places in the order."""
        folders = self._paths.layout.folders_with(name)
        positions: Iterator[int] | list[int]
        if folders is None:
            self._paths.count(_STEPS_OF_A_LOOK * len(self.directories))
            positions = iter(range(len(self.directories)))
        elif len(folders) < len(self._positions):
            self._paths.count(len(folders))
            positions = sorted(self._positions[each] for each in folders if each in self._positions)
        else:
            self._paths.count(len(self._positions))
            positions = [at for folder, at in self._positions.items() if folder in folders]
        for position in positions:
            yield position, self._places[self.directories[position]]

    def searched(self, position: int) -> tuple[str, ...]:
        """The directories up to that place in the order, which is the last that was searched."""
        if position + 1 >= len(self.directories):
            return self.directories
        if position not in self._beginnings:
            self._paths.count(position)
            self._beginnings[position] = self.directories[: position + 1]
        return self._beginnings[position]

    def position_of(self, directory: str) -> int | None:
        """The place of a directory in the order; None of one that is not in it."""
        return self._ordinals.get(directory)

    def without(self, directory: str) -> tuple[str, ...]:
        """All directories but that one."""
        if directory not in self._others:
            others = tuple(each for each in self.directories if each != directory)
            self._others[directory] = others
        return self._others[directory]

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {directory: position for position, directory in enumerate(self.directories)}

    @cached_property
    def _positions(self) -> dict[str, int]:
        """By where a directory lies behind links: the first place of it in the order."""
        found: dict[str, int] = {}
        for position, directory in enumerate(self.directories):
            found.setdefault(self._paths.layout.real_folder(directory), position)
        return found


class SearchPaths:
    """Makes the search paths of a layout, each once, within bounds."""

    def __init__(self, layout: FileLayout[Any], steps: Steps) -> None:
        self.layout, self.count = layout, steps.count
        self._known: dict[tuple[tuple[Directory, ...], str | None], SearchPath] = {}
        self._handed: dict[tuple[int, int], SearchPath] = {}
        self.empty = self.make(())

    def make(self, elements: tuple[Directory, ...], program: str | None = None) -> SearchPath:
        """Make the search path of these directories. Raises TooLarge."""
        key = tuple(dict.fromkeys(elements)), program
        if key not in self._known:
            self.count(len(key[0]))
            self._known[key] = SearchPath(*key, self)
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
            added = own(library)
            self.count(sum(len(each.directory or "") // _CHARACTERS for each in added))
            every = added + handed.elements
            self._handed[key] = self.make(every, handed.program) if added else handed
        return self._handed[key]
