"""What Python has loaded before an object, as far as the package's imports tell.

Nobody follows the code. A library that no search path finds, and that another distribution has,
counts as loaded where the package's sources import that distribution, or one that requires it.
Where they have a word of loading libraries, others that lie there may be loaded: their symbols are
there to be looked up, and the need itself stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from packaging.utils import canonicalize_name

from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.loaders.required_packages import find_required
from binary_checks.model import Edge, Linkage, Package, Rule, TargetSystem
from binary_checks.python_code.loading_words import LoadingWords


def is_in_doubt(linkage: Linkage) -> bool:
    """Whether something is found only if something else was loaded before."""
    return any(map(_list_doubtful, linkage.edges)) or bool(linkage.unresolved)


class LoadedBefore(NamedTuple):
    """Libraries that Python has loaded before objects of a package, as linkages name them."""

    loads: Mapping[str, tuple[str, ...]]  # by root, all of them
    doubtful: frozenset[str]  # of which only the package's own code may be what loads them


def find_loaded_before(
    linkage: Linkage, words: LoadingWords, others: Iterable[Package], target: TargetSystem
) -> LoadedBefore:
    """Find what is there before each root: what imports load, and what own code may load.

    Nothing but a loader is meant to load what a repair tool put into the package.
    """
    imported = _find_imported(words.imports, others, target)
    chosen = _Choice(imported, frozenset(linkage.orphans))
    needs: dict[str, list[str]] = {}
    for edge in linkage.edges:
        label = chosen.choose(_list_doubtful(edge), by_code=_may_load(edge, words))
        if label:
            needs.setdefault(edge.path, []).append(label)
    loads = {
        root: tuple(dict.fromkeys(label for path in objects for label in needs.get(path, ())))
        for root, objects in linkage.closures
    }
    return LoadedBefore(
        {root: each for root, each in loads.items() if each}, frozenset(chosen.doubtful)
    )


class _Choice:
    """Chooses what is there of all that lies elsewhere: thousands of needs may share it."""

    def __init__(self, imported: frozenset[str], orphans: frozenset[str]) -> None:
        self._imported, self._orphans = imported, orphans
        self._known: dict[tuple[tuple[str, ...], bool], str] = {}
        self.doubtful = set[str]()  # what only own code may load

    def choose(self, labels: tuple[str, ...], *, by_code: bool) -> str:
        """The first that is loaded, or that own code may load; "" where none is."""
        key = labels, by_code
        if key not in self._known:
            self._known[key] = self._find(labels, by_code=by_code)
        return self._known[key]

    def _find(self, labels: tuple[str, ...], *, by_code: bool) -> str:
        certain = dict.fromkeys(filter(self._is_imported, labels))
        if not by_code:
            return next(iter(certain), "")
        may = [each for each in labels if each not in self._orphans or each in certain]
        self.doubtful.update(each for each in may if each not in certain)
        return may[0] if may else ""

    def _is_imported(self, label: str) -> bool:
        _, _, rest = label.partition(":")
        return bool(rest) and canonicalize_name(rest.partition(":")[0]) in self._imported


def _may_load(edge: Edge, words: LoadingWords) -> bool:
    """Whether own code may load what an object needs, as nothing else is known of it."""
    known = edge.may_come_with or edge.unknown
    return edge.resolved is None and not known and bool(words.loading)


def leave_open(linkage: Linkage, doubtful: frozenset[str]) -> Linkage:
    """The linkage, with what only own code may load as what no search finds."""
    return replace(linkage, edges=tuple(_leave_open(edge, doubtful) for edge in linkage.edges))


def _leave_open(edge: Edge, doubtful: frozenset[str]) -> Edge:
    label = edge.resolved or ""
    if edge.rule is not Rule.LOADED_FIRST or label not in doubtful or edge.shadowed is not None:
        return edge
    return replace(edge, resolved=None, rule=Rule.MISSING, elsewhere=(label,))


def _list_doubtful(edge: Edge) -> tuple[str, ...]:
    """Where a library lies that is there only if it was loaded before."""
    if edge.delayed:
        return ()
    if edge.resolved is None:
        return edge.elsewhere
    by_luck = edge.rule is Rule.LOADED and edge.shadowed is None
    return (edge.resolved,) if by_luck else ()


def _find_imported(
    imports: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> frozenset[str]:
    """The distributions that are imported, and all that these require."""
    given: Mapping[str, Package] = {canonicalize_name(each.name): each for each in others}
    names = frozenset(imports)
    tops = {name.partition(".")[0] for name in names}
    direct = {
        name
        for name, package in given.items()
        if _has_imported(package.derive(ModuleFiles), names, tops)
    }
    texts = tuple(text for name in direct for text in given[name].claims.requirements)
    return frozenset(direct.union(find_required(texts, given, target)))


def _has_imported(files: ModuleFiles, names: frozenset[str], tops: set[str]) -> bool:
    """Whether a module of a package is imported; a folder that many share tells nothing."""
    if tops.isdisjoint(files.roots):
        return False
    return any(
        name in files.sources or name in files.extensions
        for name in names
        if name.partition(".")[0] in files.roots
    )
