"""How glibc's and musl's loaders find what an object needs; their rules say what differs."""

from __future__ import annotations

import re
from typing import Protocol

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.loader import Directory, End, Steps
from binary_checks.loaders.path_lookup import SearchPath, SearchPaths
from binary_checks.loaders.pythons import python_of
from binary_checks.loaders.searches import Searches
from binary_checks.model import ElfFile, Interpreter, Package, Rule, TargetSystem
from binary_checks.model.linkage import expand

_LIBPYTHON = re.compile(r"libpython3(?:\.(?P<minor>\d+)(?P<flags>[a-z]*))?\.so(?:\.1\.0)?")


class LoaderRules(Protocol):
    """What glibc's and musl's loaders differ in; the modules of these names say it."""

    @property
    def SKIPS_FOREIGN_FILES(self) -> bool:  # noqa: N802
        """Whether a file of another architecture is passed over."""

    @property
    def CHECKS_VERSIONS(self) -> bool:  # noqa: N802
        """Whether symbol versions count."""

    def hand_down(self, library: ElfFile) -> tuple[Directory, ...]:
        """The places that a library adds to those that its descendants inherit."""

    def search(self, library: ElfFile) -> tuple[Directory, ...] | None:
        """The places for the library's own needs; None where they are those handed down."""

    def names_of(self, library: ElfFile, requested: str) -> frozenset[str]:
        """The needed names that the library satisfies once it is loaded."""

    def preloaded(self, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a Python process has from the start."""

    def brings(self, name: str, libraries: frozenset[str]) -> tuple[str, ...]:
        """What a library of the system has with it."""

    def answers_itself(self, name: str) -> bool:
        """Whether the loader takes itself for that library."""


class ElfLoader:
    """The dynamic loader of a Linux system over one layout."""

    def __init__(
        self,
        package: Package,
        others: tuple[Package, ...],
        target: TargetSystem,
        rules: LoaderRules,
        limit_factor: int = 1,
    ) -> None:
        self.layout = FileLayout(package, others, kind=ElfFile)
        self.target, self.rules = target, rules
        self.searches = Searches(self)
        self.steps = Steps(limit_factor)
        self._paths = SearchPaths(self.layout, self.steps)

    def begin(self, root: ElfFile) -> SearchPath:
        """Nothing: every search path belongs to an object."""
        del root
        return self._paths.empty

    def hand_down(self, library: ElfFile, handed: SearchPath) -> SearchPath:
        """What reaches a library's needs."""
        return self._paths.extend(library, self.rules.hand_down, handed)

    def search(self, library: ElfFile, handed: SearchPath) -> SearchPath:
        """Its RUNPATH, or the RPATHs handed down to it."""
        own = self.rules.search(library)
        return handed if own is None else self._paths.make(own)

    def find(self, library: ElfFile, name: str, places: SearchPath) -> End[ElfFile]:
        """What a needed name means to a library that looks there."""
        if self.rules.answers_itself(name):
            return End(resolved=f"system:{name}", rule=Rule.SYSTEM)
        if "/" in name:
            return self._open(library, name)
        for place in places.having(name):
            directory = place.directory or ""
            files = self.layout.find(directory, name)
            fitting = next((f for f in files if f.architecture == library.architecture), None)
            if fitting or self.layout.is_unread(directory, name):
                path = fitting.path if fitting else f"{directory}/{name}".lstrip("/")
                return End(
                    resolved=self.layout.label(path),
                    rule=place.rule,
                    searched=places.searched(place),
                    library=fitting,
                )
            if files and not self.rules.SKIPS_FOREIGN_FILES:
                return End(searched=places.searched(place))
        return self._ask_system(library, name, places.directories)

    def called(self, name: str) -> str:
        """The needed name as it is."""
        return name

    def answers_to(self, library: ElfFile, requested: str) -> frozenset[str]:
        """The needed names that the library satisfies once it is loaded."""
        return self.rules.names_of(library, requested)

    def preloaded(self) -> dict[str, str]:
        """The C library, and what else every Python has loaded."""
        return {name: f"system:{name}" for name in self.rules.preloaded(self.target.libraries)}

    def presumed(self, library: str) -> tuple[str, ...]:
        """Nothing: of what a policy lists there are data, or it is not known."""
        del library
        return ()

    def brings(self, name: str) -> tuple[str, ...]:
        """What a library of the system has with it."""
        return self.rules.brings(name, self.target.libraries)

    def _open(self, library: ElfFile, name: str) -> End[ElfFile]:
        """Take a needed name with a slash as a path: from $ORIGIN, else from the user's cwd."""
        folder, _, file_name = name.rpartition("/")
        directory = expand(folder, library)
        files = self.layout.find(directory, file_name) if directory is not None else ()
        fitting = next((f for f in files if f.architecture == library.architecture), None)
        if fitting is None:
            return End()
        return End(resolved=self.layout.label(fitting.path), rule=Rule.PATH, library=fitting)

    def _ask_system(self, library: ElfFile, name: str, searched: tuple[str, ...]) -> End[ElfFile]:
        """What neither the package nor those beside it have, the platform or Python may."""
        if name in self.target.libraries and not library.no_default_libraries:
            return End(resolved=f"system:{name}", rule=Rule.SYSTEM, searched=searched)
        if _is_interpreters(name, python_of(library, self.target)):
            return End(resolved=f"python:{name}", rule=Rule.PYTHON, searched=searched)
        return End(searched=searched)


def _is_interpreters(name: str, python: Interpreter | None) -> bool:
    """Whether the name is that of the interpreter's own libpython."""
    match = _LIBPYTHON.fullmatch(name)
    if match is None or match["minor"] is None or python is None:
        return match is not None
    same = int(match["minor"]) == python.version[1]
    return same and ("t" in match["flags"]) == python.free_threaded
