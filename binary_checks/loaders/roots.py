"""Which objects of a package are loaded by themselves, and which only because others need them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from binary_checks.loaders.image import Image
from binary_checks.model import ElfFile, Kind
from binary_checks.model.extensions import is_extension

# auditwheel's and patchelf users' mark on a grafted file: libgfortran-040039e1.so.5.0.0.
_HASHED = re.compile(r"[-.][0-9a-f]{8}(?:[-.].*)?\.so(?:\.|$)")

Load = Callable[[ElfFile], Image]


def is_grafted(library: ElfFile) -> bool:
    """Whether a repair tool put it there: it is judged through those that load it."""
    folders = library.directory.split("/")
    return any(folder.endswith(".libs") for folder in folders) or bool(
        _HASHED.search(library.file_name)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Loadings:
    """The processes that a package is loaded into."""

    roots: tuple[Image, ...]
    orphans: tuple[Image, ...]  # of grafted libraries that no root reaches
    unreached: tuple[str, ...]  # the paths of all those libraries


def load_roots(objects: Iterable[ElfFile], load: Load) -> Loadings:
    """Load every root into a process of its own, and then what none of them reaches.

    A root is an extension module, an executable, or a library that nothing in the package asks
    for by name; then one that none of these reaches, since something must open it (libc10.so,
    where the objects that need it look elsewhere). Grafted libraries are no roots: one that is
    not reached is an orphan.
    """
    libraries = tuple(objects)
    wanted = {need.name for library in libraries for need in library.needed}
    roots = tuple(load(item) for item in libraries if _is_evident(item, wanted))
    rest = _not_reached(libraries, roots)
    later = tuple(_load_rest([item for item in rest if not is_grafted(item)], load))
    unreached = _not_reached(rest, later)
    return Loadings(
        roots=tuple(sorted((*roots, *later), key=lambda image: image.root.path)),
        orphans=tuple(_load_rest(unreached, load)),
        unreached=tuple(item.path for item in unreached),
    )


def _is_evident(library: ElfFile, wanted: set[str]) -> bool:
    if library.kind is Kind.EXECUTABLE:
        return True
    if is_grafted(library):
        return False
    return is_extension(library) or wanted.isdisjoint({library.name, library.file_name})


def _not_reached(libraries: Iterable[ElfFile], images: Iterable[Image]) -> list[ElfFile]:
    reached = {item.path for image in images for item in image.objects}
    return [library for library in libraries if library.path not in reached]


def _load_rest(rest: list[ElfFile], load: Load) -> Iterator[Image]:
    """Load what is left, one by one, first those that no other of them asks for."""
    wanted = {need.name for item in rest for need in item.needed}
    reached: set[str] = set()
    for item in sorted(rest, key=lambda item: not wanted.isdisjoint({item.name, item.file_name})):
        if item.path not in reached:
            image = load(item)
            reached.update(other.path for other in image.objects)
            yield image
