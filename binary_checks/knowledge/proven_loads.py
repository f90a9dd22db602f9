"""What processes that imported a package prove about libraries that a simulation did not find."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binary_checks.model import (
    Edge,
    Format,
    Layout,
    Linkage,
    LoadedTogether,
    MissingVersion,
    Package,
    Rule,
    UnresolvedSymbol,
)

_ABSOLUTE = r"/|[A-Za-z]:/"  # also "//server/share"


def find_doubtful_roots(linkage: Linkage) -> tuple[str, ...]:
    """Return the roots that load only if the package's own code has loaded something before.

    Only answers that lie in the package and its requirements count: a library of this system
    proves nothing about the systems of users.
    """
    roots = (
        *(edge.root or edge.path for edge in linkage.edges if _may_be_proven(edge)),
        *(item.root or item.path for item in linkage.unresolved if item.elsewhere),
        *(item.root or item.path for item in linkage.missing_versions if _is_inside(item.provider)),
    )
    return tuple(dict.fromkeys(roots))


def _may_be_proven(edge: Edge) -> bool:
    if edge.weak or edge.delayed:
        return False
    lucky = edge.rule is Rule.LOADED and _is_inside(edge.resolved or "")
    return lucky or (edge.resolved is None and bool(edge.elsewhere))


def _is_inside(label: str) -> bool:
    """Return whether the object is in the package or in a package given next to it."""
    return bool(label) and not label.startswith(("system:", "python:"))


def mark_proven(linkage: Linkage, loaded: LoadedTogether, package: Package) -> Linkage:
    """Return the linkage with the files that satisfied doubtful needs in those processes."""
    processes = [_Loaded(each, linkage) for each in loaded.processes]
    definers = _find_definers(linkage.unresolved, package)
    return replace(
        linkage,
        edges=tuple(_prove_edges(linkage.edges, processes, loaded.architecture)),
        unresolved=tuple(
            replace(item, proven=_find_definition(item, definers, processes))
            for item in linkage.unresolved
        ),
        missing_versions=tuple(
            replace(item, proven=_is_loaded(item, processes)) for item in linkage.missing_versions
        ),
    )


class _Loaded:
    """The files that one process had loaded, compared as its system compares paths."""

    def __init__(self, reported: Iterable[str], linkage: Linkage) -> None:
        self._ignores_case = linkage.format == Format.PE
        self._files = {self._normalise(_place(path, linkage.layout)) for path in reported}

    def _normalise(self, path: str) -> str:
        return path.lower() if self._ignores_case else path

    def has(self, label: str) -> bool:
        """Return whether the process had this object of the package or of a given wheel."""
        kind, colon, rest = label.partition(":")
        path = rest.partition(":")[2] if colon and kind == "wheel" else label
        return self._normalise(path) in self._files


def _place(reported: str, layout: Layout) -> str:
    return reported if re.match(_ABSOLUTE, reported) else layout.place(reported)


def _prove_edges(
    edges: tuple[Edge, ...], processes: list[_Loaded], architecture: str
) -> Iterator[Edge]:
    slices = {(edge.path, edge.architecture) for edge in edges}
    for edge in edges:
        runs = edge.architecture == architecture or (edge.path, architecture) not in slices
        if runs and _may_be_proven(edge):
            targets = edge.elsewhere if edge.resolved is None else (edge.resolved,)
            yield replace(edge, proven=_find_loaded(edge.path, targets, processes))
        else:
            yield edge


def _find_loaded(path: str, targets: Iterable[str], processes: Iterable[_Loaded]) -> str:
    """Return the first of the targets that a process had together with the object, or ""."""
    having = [each for each in processes if each.has(path)]
    return next((target for target in targets if any(each.has(target) for each in having)), "")


def _find_definers(items: Iterable[UnresolvedSymbol], package: Package) -> dict[str, list[str]]:
    """Map each undefined symbol to the package's objects that define it."""
    definers: dict[str, list[str]] = {item.name: [] for item in items if item.elsewhere}
    for library in package.objects if definers else ():
        for name in definers.keys() & library.exports.names:
            definers[name].append(library.path)
    return definers


def _find_definition(
    item: UnresolvedSymbol, definers: dict[str, list[str]], processes: list[_Loaded]
) -> str:
    if not item.elsewhere or item.delayed:
        return ""
    return _find_loaded(item.path, (item.elsewhere, *definers[item.name]), processes)


def _is_loaded(item: MissingVersion, processes: list[_Loaded]) -> bool:
    return _is_inside(item.provider) and any(each.has(item.path) for each in processes)
