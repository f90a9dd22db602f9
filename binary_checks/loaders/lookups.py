"""What became of undefined symbols, and whose those are that look like Python's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Generic

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


class Unresolved(Generic[ObjectT]):
    """Collects the symbols that nothing in scope defines, and finds who else defines them.

    Thousands of objects may each lack one: the layout is looked through once for all of them.
    """

    def __init__(self, layout: FileLayout[ObjectT]) -> None:
        self._layout = layout
        self._found: dict[tuple[str, str, str, str], tuple[UnresolvedSymbol, str]] = {}

    def add(self, item: UnresolvedSymbol, architecture: str, *, asked: str = "") -> None:
        """Add a symbol of an object for that architecture, unless another process lacked it."""
        key = (item.path, item.architecture, item.name, asked)
        self._found.setdefault(key, (item, architecture))

    def list_all(self) -> tuple[UnresolvedSymbol, ...]:
        """List all of them, each with an object that defines it but is not in scope."""
        names: dict[str, set[str]] = {}
        for item, architecture in self._found.values():
            if not item.provider:
                names.setdefault(architecture, set()).add(item.name)
        definers = {each: self._layout.definers(frozenset(names[each]), each) for each in names}
        return tuple(
            item
            if item.provider
            else replace(item, elsewhere=definers[architecture].get(item.name, ""))
            for _, (item, architecture) in sorted(self._found.items(), key=itemgetter(0))
        )


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
