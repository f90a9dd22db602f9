"""Which required distributions, as long as they are not given, may have a library not found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from packaging.utils import canonicalize_name

from binary_checks.knowledge.shipped_names import (
    are_of_one_name,
    fills_prefix,
    find_known_shippers,
    find_shippers,
    first_word,
    is_grafted_name,
    may_have,
)
from binary_checks.model import Edge, Package, TargetSystem
from binary_checks.model.requires_dist import applicable
from binary_checks.model.search_path import Directories, directories, leaves_prefix

_GRAFTED_FOLDER = re.compile(r"(?:\A|/)(?P<owner>[^/]*)\.(?:libs|dylibs)(?:/|\Z)")
_BY_ITS_PLACE_ALONE = ("@loader_path/", "@executable_path/")  # not by what is loaded already


def find_bringers(
    package: Package,
    edges: tuple[Edge, ...],
    requirements: tuple[str, ...],
    missing: tuple[str, ...],
    target: TargetSystem,
) -> tuple[Edge, ...]:
    """The edges, those that lead nowhere with the names of the ``missing`` that may have it."""
    if not missing or all(map(_is_settled, edges)):
        return edges
    bringers = _Bringers(package, requirements, missing, target, edges)
    return tuple(
        edge if _is_settled(edge) else replace(edge, may_come_with=bringers.of(edge))
        for edge in edges
    )


def _is_settled(edge: Edge) -> bool:
    return edge.resolved is not None


class _Bringers:
    """What the requirements' names, and the folders that they may fill, tell of a library."""

    def __init__(
        self,
        package: Package,
        requirements: tuple[str, ...],
        missing: tuple[str, ...],
        target: TargetSystem,
        edges: tuple[Edge, ...],
    ) -> None:
        self._package, self._missing = package, missing
        self._requirements, self._target = requirements, target
        self._name = canonicalize_name(package.name)
        self._inside = package.layout.inside
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        for edge in edges:
            if edge.resolved is None:
                named = self._named.setdefault((edge.path, edge.architecture), {})
                named.update(dict.fromkeys(find_shippers(edge.needed, missing)))

    def of(self, edge: Edge) -> tuple[str, ...]:
        """Those that may have it: whom its name tells of, else who fills a folder searched."""
        by_place = edge.needed.startswith(_BY_ITS_PLACE_ALONE)
        known = () if by_place else find_known_shippers(edge.needed, self._missing)
        if known:
            return known
        grafted, of_own = is_grafted_name(edge.needed), self._is_of_own_family(edge)
        mended = [each for each in edge.searched if self._is_own_graft(each)]
        if mended and (grafted or any(map(self._is_lost, mended))):
            return ()
        by_name = not (grafted or by_place or of_own or any(map(self._is_lost, edge.searched)))
        if by_name and (named := find_shippers(edge.needed, self._missing)):
            return named
        found: dict[str, None] = {}
        for directory in edge.searched:
            found.update(dict.fromkeys(self._fillers(directory, only_theirs=grafted)))
        if by_name:
            # What needs libcasadi.so.3.7 of casadi may have libipopt.so.3 of it too.
            found.update(self._named.get((edge.path, edge.architecture), {}))
        return tuple(
            each
            for each in sorted(found)
            if may_have(each, edge.needed) and (not of_own or are_of_one_name(each, self._name))
        )

    def _fillers(self, directory: str, *, only_theirs: bool) -> Iterable[str]:
        """The requirements that may put files into a directory.

        Into a folder of this package's only a sibling does: one that is called alike and of this
        very version (PySide6-Addons), or where the package itself has no such folder one of both
        (PyQt6-Qt6 in PyQt6/Qt6, mlx-metal in mlx/lib). openvino-telemetry has nothing in
        openvino/libs, and shiboken6 nothing in PySide6/Qt/lib. And into what a repair tool made
        only whose name it has.
        """
        inside, missing = self._inside(directory), self._missing
        grafted = _GRAFTED_FOLDER.search(directory)
        if leaves_prefix(directory):
            return ()
        if inside is None and not self._package.layout.climbs:
            return missing  # in a conda environment all packages fill one ``lib``
        if grafted:
            owner = canonicalize_name(grafted["owner"])
            return [each for each in missing if each == owner]
        if not inside or self._is_own(inside):
            siblings = [each for each in missing if self._is_sibling(each, directory)]
            if inside is None:
                siblings += filter(fills_prefix, missing)
            return () if only_theirs else siblings
        top = canonicalize_name(inside.partition("/")[0])
        theirs = [each for each in missing if each == top or are_of_one_name(each, top)]
        return theirs if theirs or only_theirs else missing

    def _is_sibling(self, requirement: str, directory: str) -> bool:
        alike, pinned = are_of_one_name(requirement, self._name), requirement in self._pinned
        return (alike and pinned) or ((alike or pinned) and directory not in self._directories)

    @cached_property
    def _pinned(self) -> frozenset[str]:
        """What is required in the package's own version alone."""
        version = self._package.version.partition("+")[0]
        return frozenset(
            canonicalize_name(each.name)
            for each in applicable(self._requirements, self._target)
            if any(
                one.operator == "==" and one.version.partition("+")[0] == version
                for one in each.specifier
            )
        )

    def _is_own(self, inside: str) -> bool:
        """Whether a path below site-packages lies in a folder that is this package's own."""
        top = inside.partition("/")[0]
        return top in self._own_tops or canonicalize_name(top) == self._name

    @cached_property
    def _own_tops(self) -> frozenset[str]:
        """The importable folders that this package has for itself; a namespace is everybody's."""
        items = (item for group in (self._package.members, self._package.objects) for item in group)
        paths = filter(None, (self._inside(item.path) for item in items))
        beginnings = (path.split("/") for path in paths if path.count("/") == 1)
        return frozenset(top for top, file in beginnings if file.startswith("__init__."))

    def _is_of_own_family(self, edge: Edge) -> bool:
        """Whether a library that is called alike lies where it was looked for: libQt6Core.so.6."""
        word = first_word(edge.needed)
        return bool(word) and any(word in self._words.get(each, ()) for each in edge.searched)

    def _is_own_graft(self, directory: str) -> bool:
        """Whether a repair tool made that folder for libraries that it puts into this package.

        pennylane-lightning looks for its libgomp-870cb1d0.so.1 in scipy_openblas32/lib too.
        """
        found = _GRAFTED_FOLDER.search(directory)
        inside = self._inside(directory) or ""
        return found is not None and (
            canonicalize_name(found["owner"]) == self._name or self._is_own(inside)
        )

    def _is_lost(self, directory: str) -> bool:
        """Whether a folder of the package's own is not there, or is for a sibling to fill.

        ortools requires absl-py, and its own libabsl_base.so lies in ortools/.libs.
        """
        inside = self._inside(directory)
        if not inside or directory in self._directories:
            return False
        grafted = _GRAFTED_FOLDER.search(inside)
        owner = grafted and canonicalize_name(grafted["owner"])
        return self._is_own(inside) or owner == self._name

    @cached_property
    def _directories(self) -> Directories:
        return directories(self._package)

    @cached_property
    def _words(self) -> Mapping[str, frozenset[str]]:
        """By directory, what the names of the package's own libraries there begin with."""
        words: dict[str, set[str]] = {}
        for item in self._package.objects:
            words.setdefault(item.directory, set()).add(first_word(item.file_name))
        return {directory: frozenset(each) for directory, each in words.items()}
