"""Follows what comes into a process with a file that is loaded: which need leads to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from binary_checks.model import Edge, Linkage, Package
from binary_checks.model.python_modules import is_extension


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """One process of the linkage: a root, and what it loads."""

    root: str
    objects: tuple[str, ...]  # in load order, also ``wheel:...``
    needs: Mapping[str, tuple[Edge, ...]] = field(repr=False)  # of every object of the layout

    def edges(self) -> Iterator[Edge]:
        """What is needed while the root is loaded, not at a first call, object by object."""
        for path in self.objects:
            yield from (edge for edge in self.needs.get(path, ()) if is_eager(edge))

    def find(self, edge: Edge) -> str | None:
        """The object of this process that satisfies a need."""
        if _target(edge) in self.objects:
            return _target(edge)
        name = edge.needed.rpartition("/")[2].lower()
        return next((o for o in self.objects if o.rpartition("/")[2].lower() == name), None)

    def chain(self, path: str) -> tuple[str, ...]:
        """The shortest way from the root to an object, both included."""
        came: dict[str, str] = {self.root: ""}
        queue = [self.root]
        for item in queue:
            for edge in filter(is_eager, self.needs.get(item, ())):
                found = self.find(edge)
                if found is not None and found not in came:
                    came[found] = item
                    queue.append(found)
        way = [path]
        while came.get(way[-1]):
            way.append(came[way[-1]])
        return tuple(reversed(way))


def is_eager(edge: Edge) -> bool:
    """Whether the loader refuses the object without what it needs."""
    return not (edge.delayed or edge.weak)


def find_loadings(linkage: Linkage) -> tuple[Loading, ...]:
    """Every process that the package was loaded into.

    With what is there only if it was loaded before, as torch's libraries are once it is imported.
    """
    needs: dict[str, tuple[Edge, ...]] = {}
    for edge in (*linkage.edges, *linkage.edges_beside):
        needs[edge.path] = (*needs.get(edge.path, ()), edge)
    return tuple(
        Loading(root=root, objects=_complete(objects, needs), needs=needs)
        for root, objects in linkage.closures
    )


def _complete(objects: Iterable[str], needs: Mapping[str, tuple[Edge, ...]]) -> tuple[str, ...]:
    found = dict.fromkeys(objects)
    queue = list(found)
    for path in queue:
        for edge in filter(is_eager, needs.get(path, ())):
            target = _target(edge)
            if target and target not in found and not target.startswith(("system:", "python:")):
                found[target] = None
                queue.append(target)
    return tuple(found)


def _target(edge: Edge) -> str | None:
    return edge.resolved or next(iter(edge.elsewhere), None)


def find_imported(package: Package, opened_at_import: tuple[str, ...]) -> frozenset[str]:
    """The files that imports load: extension modules, and what is known to be opened there."""
    return frozenset(
        item.path
        for item in package.objects
        if is_extension(item)
        or any(
            fnmatchcase(package.layout.shorten(item.path), pattern) for pattern in opened_at_import
        )
    )
