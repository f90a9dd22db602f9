"""Searches for what objects need, each made once however many processes ask for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from binary_checks.loaders.layout import Layout
from binary_checks.loaders.places import Place
from binary_checks.loaders.rules import LoaderRules
from binary_checks.model import Edge, ElfFile, Rule, TargetSystem
from binary_checks.model.search_path import expand

_LIBPYTHON = re.compile(r"libpython3(?:\.(?P<minor>\d+)(?P<flags>[a-z]*))?\.so(?:\.1\.0)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The end of one search, as if nothing had been loaded before."""

    edge: Edge  # without a root: any process may ask
    library: ElfFile | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """Where a search ended."""

    resolved: str | None
    rule: Rule
    searched: tuple[str, ...] = ()
    library: ElfFile | None = None


class Searches:
    """All searches on one layout; the answer depends on the places alone, not on the process."""

    def __init__(self, layout: Layout, target: TargetSystem, rules: LoaderRules) -> None:
        self.layout, self.target, self.rules = layout, target, rules
        self._known: dict[tuple[str, str, str, tuple[Place, ...]], Found] = {}

    def find(self, library: ElfFile, name: str, handed: tuple[Place, ...]) -> Found:
        """What a needed name means to a library with those RPATHs handed down to it."""
        key = (library.path, library.architecture, name, handed)
        if key not in self._known:
            end = self._look_for(library, name, self.rules.search(library, handed))
            self._known[key] = Found(edge=self._edge(library, name, end), library=end.library)
        return self._known[key]

    def _edge(self, library: ElfFile, name: str, end: _End) -> Edge:
        return Edge(
            path=library.path,
            architecture=library.architecture,
            needed=name,
            resolved=end.resolved,
            rule=end.rule,
            searched=end.searched,
            leaves_package=any(map(self.layout.may_be_shared, end.searched)),
            elsewhere=() if end.resolved else self.layout.elsewhere(name, library),
        )

    def _look_for(self, library: ElfFile, name: str, places: tuple[Place, ...]) -> _End:
        if self.rules.answers_itself(name):
            return _End(resolved=f"system:{name}", rule=Rule.SYSTEM)
        if "/" in name:
            return self._open(library, name)
        searched: dict[str, None] = {}
        for place in places:
            if place.directory is None or place.directory in searched:
                continue
            searched[place.directory] = None
            files = self.layout.find(place.directory, name)
            fitting = next((f for f in files if f.architecture == library.architecture), None)
            if fitting or self.layout.is_unread(place.directory, name):
                path = fitting.path if fitting else f"{place.directory}/{name}".lstrip("/")
                return _End(
                    resolved=self.layout.label(path),
                    rule=place.rule,
                    searched=tuple(searched),
                    library=fitting,
                )
            if files and not self.rules.SKIPS_FOREIGN_FILES:
                return _End(resolved=None, rule=Rule.MISSING, searched=tuple(searched))
        return self._ask_system(library, name, tuple(searched))

    def _open(self, library: ElfFile, name: str) -> _End:
        """Take a needed name with a slash as a path: from $ORIGIN, else from the user's cwd."""
        folder, _, file_name = name.rpartition("/")
        directory = expand(folder, library)
        files = self.layout.find(directory, file_name) if directory is not None else ()
        fitting = next((f for f in files if f.architecture == library.architecture), None)
        if fitting is None:
            return _End(resolved=None, rule=Rule.MISSING)
        return _End(resolved=self.layout.label(fitting.path), rule=Rule.PATH, library=fitting)

    def _ask_system(self, library: ElfFile, name: str, searched: tuple[str, ...]) -> _End:
        """What neither the package nor those beside it have, the platform or Python may."""
        if name in self.target.libraries and not library.no_default_libraries:
            return _End(resolved=f"system:{name}", rule=Rule.SYSTEM, searched=searched)
        if _is_interpreters(name, self.target):
            return _End(resolved=f"python:{name}", rule=Rule.PYTHON, searched=searched)
        return _End(resolved=None, rule=Rule.MISSING, searched=searched)


def _is_interpreters(name: str, target: TargetSystem) -> bool:
    """Whether the name is that of the target's own libpython."""
    match = _LIBPYTHON.fullmatch(name)
    if match is None or match["minor"] is None or target.interpreter is None:
        return match is not None
    same = int(match["minor"]) == target.interpreter.version[1]
    return same and ("t" in match["flags"]) == target.interpreter.free_threaded
