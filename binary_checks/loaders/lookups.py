"""What became of undefined symbols, and whose those are that look like Python's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.image import Image
from binary_checks.loaders.loader import ObjectT
from binary_checks.model import UnexploredSymbols, UnresolvedSymbol


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookups:
    """What became of all undefined symbols."""

    unresolved: tuple[UnresolvedSymbol, ...]
    unexplored: tuple[UnexploredSymbols, ...]
    granted: tuple[tuple[str, int], ...] = ()  # by library of unknown exports: how many symbols


def find_own_python_symbols(
    images: Iterable[Image[ObjectT]], layout: FileLayout[ObjectT]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """By object the symbols of the C API's shape that something loaded with it defines.

    libshiboken6 has a PyRun_String of its own, for PySide6 to stay within the stable ABI.
    """
    images = tuple(images)
    objects = {item.path: item for image in images for item in image.objects}
    own = {path: item for path, item in objects.items() if layout.is_own(item)}
    wanted = {name for item in own.values() for name in item.imports.names if is_pythons(name)}
    offered = {path: names for path, i in objects.items() if (names := i.exports.among(wanted))}
    found: dict[str, set[str]] = {}
    for image in images if offered else ():
        defined = {name for item in image.objects for name in offered.get(item.path, ())}
        for item in image.objects if defined else ():
            if item.path in own and (names := item.imports.among(defined)):
                found.setdefault(item.path, set()).update(names)
    return tuple((path, tuple(sorted(names))) for path, names in sorted(found.items()))


def is_pythons(name: str) -> bool:
    """Whether the C API of Python could have a symbol of that name."""
    return name.startswith(("Py", "_Py")) and not name.startswith("PyInit")
