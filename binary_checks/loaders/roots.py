"""Which objects of a package are loaded by themselves, and which only because others need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

from binary_checks.knowledge.library_names import is_grafted_name
from binary_checks.loaders.first_loads import FirstLoads
from binary_checks.loaders.image import Image, load
from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.model import Kind, ObjectFile
from binary_checks.model.python_modules import is_extension


def is_grafted(library: ObjectFile) -> bool:
    """Whether a repair tool put it there: it is judged through those that load it."""
    folders = library.directory.split("/")
    grafted = any(folder.endswith((".libs", ".dylibs")) for folder in folders)
    return grafted or is_grafted_name(library.file_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loadings(Generic[ObjectT]):
    """The processes that a package is loaded into."""

    roots: tuple[Image[ObjectT], ...]
    orphans: tuple[Image[ObjectT], ...]  # of grafted libraries that no root reaches
    unreached: tuple[str, ...]  # the paths of all those libraries


def load_roots(
    objects: Iterable[ObjectT], loader: Loader[ObjectT], first: FirstLoads[ObjectT]
) -> Loadings[ObjectT]:
    """Load every root into a process of its own, and then what none of them reaches.

    A root is an extension module, an executable, or a library that nothing in the package asks
    for by name; then one that none of these reaches, since something must open it (libc10.so,
    where the objects that need it look elsewhere). Grafted libraries are no roots: one that is
    not reached is an orphan.
    """
    libraries = tuple(objects)

    def open_one(root: ObjectT) -> Image[ObjectT]:
        return load(root, loader, first.before(root))

    wanted = _Wanted(libraries, loader)
    roots = tuple(open_one(item) for item in libraries if _is_evident(item, wanted))
    rest = _not_reached(libraries, roots)
    ungrafted = [item for item in rest if not is_grafted(item)]
    later = tuple(_load_rest(ungrafted, open_one, _Wanted(ungrafted, loader)))
    unreached = _not_reached(rest, later)
    return Loadings(
        roots=tuple(sorted((*roots, *later), key=lambda image: image.root.path)),
        orphans=tuple(_load_rest(unreached, open_one, _Wanted(unreached, loader))),
        unreached=tuple(item.path for item in unreached),
    )


class _Wanted:
    """The names that some libraries need, as libraries are called by."""

    def __init__(self, libraries: Iterable[ObjectT], loader: Loader[ObjectT]) -> None:
        self._names_of, spell = loader.layout.names_of, loader.layout.spell_name
        self._names = {spell(need.name) for item in libraries for need in item.needed}

    def __contains__(self, library: ObjectFile) -> bool:
        return not self._names.isdisjoint(self._names_of(library))


def _is_evident(library: ObjectFile, wanted: _Wanted) -> bool:
    if library.kind is Kind.EXECUTABLE:
        return True
    if is_grafted(library):
        return False
    return is_extension(library) or library not in wanted


def _not_reached(libraries: Iterable[ObjectT], images: Iterable[Image[ObjectT]]) -> list[ObjectT]:
    reached = {item.path for image in images for item in image.objects}
    return [library for library in libraries if library.path not in reached]


def _load_rest(
    rest: list[ObjectT], open_one: Callable[[ObjectT], Image[ObjectT]], wanted: _Wanted
) -> Iterator[Image[ObjectT]]:
    """Load what is left, one by one, first those that no other of them asks for."""
    reached: set[str] = set()
    for item in sorted(rest, key=lambda item: item in wanted):
        if item.path not in reached:
            image = open_one(item)
            reached.update(other.path for other in image.objects)
            yield image
