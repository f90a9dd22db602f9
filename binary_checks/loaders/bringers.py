"""Which required distributions, as long as they are not given, may have a library not found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

from packaging.utils import canonicalize_name

from binary_checks.errors import TooLarge
from binary_checks.knowledge.library_names import (
    RequiredNames,
    are_of_one_name,
    fills_prefix,
    find_known_shippers,
    find_qt_sibling,
    find_shippers,
    find_stem,
    first_word,
    is_grafted_name,
    is_nvidias,
    may_be_required,
    may_have,
)
from binary_checks.knowledge.loading import is_for_others
from binary_checks.loaders.required_packages import find_required
from binary_checks.model import Edge, Package, TargetSystem, UnexploredSymbols, UnresolvedSymbol
from binary_checks.model.linkage import Directories, directories, leaves_prefix
from binary_checks.model.mangling import namespace_of
from binary_checks.model.python_modules import is_extension
from binary_checks.model.requires_dist import applicable

_GRAFTED_FOLDER = re.compile(r"(?:\A|/)(?P<owner>[^/]*)\.(?:libs|dylibs)(?:/|\Z)")
_CXX = "libstdc++.so.6"
_NOBODYS = frozenset({"bin", "lib", "lib64"})
"""Folders of site-packages that are called as no importable package is. open3d, which requires dash
and flask, looks for libEGL.so.1 in site-packages/lib."""
_NOT_HERE = "not here, and no system promises it: name the package, or the folder, that also has it"
_HOSTS = "the program that loads the file may define them"
_MOST_PAIRS = 4_000_000  # of needs and requirements; the largest packages have some ten thousand
_BY_ITS_PLACE_ALONE = ("@loader_path/", "@executable_path/")  # not by what is loaded already


def find_bringers(
    package: Package,
    edges: tuple[Edge, ...],
    requirements: tuple[str, ...],
    missing: tuple[str, ...],
    target: TargetSystem,
) -> tuple[Edge, ...]:
    """The edges, those that lead nowhere with the names of the ``missing`` that may have it."""
    if all(map(_is_settled, edges)):
        return edges
    if package.claims.partial:
        return tuple(map(_leave_open, edges))
    if not requirements:
        return tuple(map(partial(_add_qt_sibling, canonicalize_name(package.name)), edges))
    if not missing:
        return edges
    bringers = _Bringers(package, requirements, missing, target, edges)
    return tuple(
        edge if _is_settled(edge) else replace(edge, may_come_with=bringers.of(edge))
        for edge in edges
    )


def find_lent(
    edges: tuple[Edge, ...], given: Mapping[str, Package], target: TargetSystem
) -> tuple[Edge, ...]:
    """The edges, with who may have CUDA's libraries among what packages given beside require.

    Of those alone that objects load something of, though the package does not require them:
    torchaudio and fbgemm-gpu leave it to their users to have torch, which requires CUDA's wheels.
    """
    if all(map(_is_settled, edges)):
        return edges
    shared = {id(edge.elsewhere): edge.elsewhere for edge in edges}.values()  # by many edges
    ends = chain((edge.resolved for edge in edges), *shared)
    labels = {end.split(":")[1] for end in ends if end and end.startswith("wheel:")}
    users = (package for name, package in given.items() if package.name in labels)
    texts = tuple(text for package in users for text in package.claims.requirements)
    required = find_required(texts, given, target).keys() - given.keys() if texts else ()
    missing = RequiredNames(sorted(required))
    return tuple(
        edge
        if _is_settled(edge) or edge.elsewhere or edge.may_come_with
        else replace(edge, may_come_with=find_known_shippers(edge.needed, missing))
        for edge in edges
    )


def _is_settled(edge: Edge) -> bool:
    return edge.resolved is not None


def _leave_open(edge: Edge) -> Edge:
    """Of a single file, or a folder of a build, nobody says what else users get with it."""
    return edge if _is_settled(edge) or edge.elsewhere else replace(edge, unknown=_NOT_HERE)


def _add_qt_sibling(name: str, edge: Edge) -> Edge:
    sibling = "" if _is_settled(edge) else find_qt_sibling(name, edge.needed)
    return replace(edge, may_come_with=(sibling,)) if sibling else edge


def find_bringers_of_symbols(
    package: Package,
    unresolved: tuple[UnresolvedSymbol, ...],
    missing: Iterable[str],
    target: TargetSystem,
) -> tuple[tuple[UnresolvedSymbol, ...], tuple[UnexploredSymbols, ...]]:
    """The symbols, without those that whatever loads the object has loaded, and these by object.

    daal's libonedal.so.4, for the modules of scikit-learn-intelex, names neither libtbb.so.12 of
    tbb, which daal requires, nor libstdc++.so.6; its modules need all three. A module of the
    package itself has to name what it needs.
    """
    required = frozenset(missing)
    modules = {item.path for item in package.objects if is_extension(item)} if unresolved else ()
    theirs: dict[tuple[str, str], set[str]] = {}
    for item in unresolved:
        known = item.elsewhere or item.provider or item.other_abi or item.root in modules
        if package.claims.partial and not known:
            theirs.setdefault((item.path, _HOSTS), set()).add(item.name)
            continue
        space = "" if known else namespace_of(item.name)
        if space in required:
            reason = f"{space} is required, and may define what is in its namespace"
            theirs.setdefault((item.path, reason), set()).add(item.name)
        elif not known and is_for_others(item.path, package) and _is_of_cxx(item.name, target):
            reason = f"{_CXX} defines them, and the file does not name it"
            theirs.setdefault((item.path, reason), set()).add(item.name)
    gone = {(path, name) for (path, _), names in theirs.items() for name in names}
    return tuple(item for item in unresolved if (item.path, item.name) not in gone), tuple(
        UnexploredSymbols(path=path, count=len(names), reason=reason)
        for (path, reason), names in theirs.items()
    )


def _is_of_cxx(name: str, target: TargetSystem) -> bool:
    found = target.library_data.get(_CXX)
    return found is not None and name in found.symbols


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Searched:
    """What is known of the folders that a library was looked for in."""

    folders: tuple[str, ...]
    mended: bool  # a repair tool made one of them, for this package
    mended_lost: bool  # and the package lacks that one
    lost: bool  # the package lacks one that is its own
    words: frozenset[str]  # what the names of its own libraries there begin with


class _Question(NamedTuple):
    """On what the answer depends for a need of which the name alone does not tell."""

    searched: _Searched
    prefix: tuple[str, ...]  # the environment's ``lib``, where that is searched too
    only_theirs: bool  # only the requirements that a folder is called after
    user: tuple[str, str] | None  # the object, where what its other needs tell counts
    of_own: bool  # the package has libraries that are called alike
    nvidias: bool  # the library is called as those of NVIDIA's wheels are


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
        self._package, self._missing = package, RequiredNames(missing)
        self._requirements, self._target = requirements, target
        self._name = canonicalize_name(package.name)
        self._inside = package.layout.inside
        open_ones = [edge for edge in edges if edge.resolved is None]
        if len(open_ones) * len(missing) > _MOST_PAIRS:
            raise TooLarge(
                f"{len(open_ones)} needs that nothing meets, and {len(missing)} requirements that "
                f"were not given: no more than {_MOST_PAIRS} pairs of both are compared"
            )
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        for edge in open_ones:
            named = self._named.setdefault((edge.path, edge.architecture), {})
            named.update(dict.fromkeys(find_shippers(edge.needed, self._missing)))
        self._searched: dict[tuple[str, ...], _Searched] = {}
        self._found: dict[_Question, tuple[str, ...]] = {}

    def of(self, edge: Edge) -> tuple[str, ...]:
        """Those that may have it: whom its name tells of, else who fills a folder searched."""
        by_place = edge.needed.startswith(_BY_ITS_PLACE_ALONE)
        known = () if by_place else find_known_shippers(edge.needed, self._missing)
        if known:
            return known
        searched = self._look_at(edge.searched)
        grafted = is_grafted_name(edge.needed)
        of_own = first_word(edge.needed) in searched.words
        if searched.mended and (grafted or searched.mended_lost):
            return ()
        # openvino_tokenizers, with a library of its own name, requires openvino: libopenvino.so.2.
        whole = of_own and bool(self._missing.named_as(find_stem(edge.needed)))
        by_name = not (grafted or by_place or searched.lost) and (whole or not of_own)
        if by_name and (named := find_shippers(edge.needed, self._missing)):
            return named
        if not may_be_required(edge.needed):
            return ()
        question = _Question(
            searched=searched,
            prefix=self._prefix_of(edge),
            only_theirs=grafted,
            user=(edge.path, edge.architecture) if by_name else None,
            of_own=of_own,
            nvidias=is_nvidias(edge.needed),
        )
        if question not in self._found:
            self._found[question] = tuple(self._find(edge.needed, question))
        return self._found[question]

    def _find(self, needed: str, asked: _Question) -> Iterator[str]:
        """Those that may fill the folders searched, in the order of their names."""
        found: dict[str, None] = {}
        for directory in dict.fromkeys((*asked.searched.folders, *asked.prefix)):
            found.update(dict.fromkeys(self._fillers(directory, only_theirs=asked.only_theirs)))
        if asked.user:
            # What needs libcasadi.so.3.7 of casadi may have libipopt.so.3 of it too.
            found.update(self._named.get(asked.user, {}))
        for each in sorted(found):
            if may_have(each, needed) and (not asked.of_own or are_of_one_name(each, self._name)):
                yield each

    def _look_at(self, folders: tuple[str, ...]) -> _Searched:
        """Say what is known of the folders that a library was looked for in."""
        if folders not in self._searched:
            mended = [each for each in folders if self._is_own_graft(each)]
            words = frozenset[str]().union(*(self._words.get(each, ()) for each in folders))
            self._searched[folders] = _Searched(
                folders=folders,
                mended=bool(mended),
                mended_lost=any(map(self._is_lost, mended)),
                lost=any(map(self._is_lost, folders)),
                words=words - {""},
            )
        return self._searched[folders]

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
            return missing.names  # in a conda environment all packages fill one ``lib``
        if grafted:
            owner = canonicalize_name(grafted["owner"])
            return [each for each in missing if each == owner]
        if not inside or self._is_own(inside):
            siblings = [each for each in missing if self._is_sibling(each, directory)]
            if inside is None:
                siblings += filter(fills_prefix, missing)
            return () if only_theirs else siblings
        top = canonicalize_name(inside.partition("/")[0])
        if top in _NOBODYS:
            return [each for each in missing if are_of_one_name(each, self._name)]
        theirs = [each for each in missing if each == top or are_of_one_name(each, top)]
        return theirs if theirs or only_theirs else missing.names

    def _prefix_of(self, edge: Edge) -> tuple[str, ...]:
        """The environment's ``lib``, if the object lies there: what loads it searches it too.

        libsycl.so of intel-sycl-rt has no search path, and libimf.so of intel-cmplr-lib-rt beside
        it.
        """
        directory = edge.path.rpartition("/")[0]
        outside = self._package.layout.site_packages and self._inside(directory) is None
        return (directory,) if outside and not edge.searched else ()

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
