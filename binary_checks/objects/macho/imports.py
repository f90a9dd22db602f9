"""What a Mach-O file imports, as one piece of bytes for each library that it asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from binary_checks.model import Symbol, SymbolTable
from binary_checks.objects.macho.binds import Binds
from binary_checks.objects.macho.encoding import decode_names, holds, join_names, library_of

SELF = 0
EVERYWHERE = -2  # the first that defines it: undefined with -undefined dynamic_lookup, as Py* are
WEAK_LOOKUP = -3  # all share one definition, such as that of ``operator new``

_Group = tuple[str, bool]  # the library that is asked; whether its symbols may be missing

_FEW = 4
"""For more names than that all of them are decoded."""


class MachOImports(SymbolTable):
    """The imports of one object.

    What is looked up in all that is loaded, for one definition to serve all, is no import of an
    object that defines it itself.
    """

    def __init__(
        self, binds: Iterable[Binds], libraries: Mapping[int, str], exports: SymbolTable
    ) -> None:
        names: dict[tuple[int, bool], list[bytes]] = {}
        for (ordinal, weak), group in (item for table in binds for item in table.items()):
            if ordinal != SELF:
                library_of(group[0], ordinal, libraries)
                names.setdefault((ordinal, weak), []).extend(group)
        self._libraries = libraries  # by ordinal
        self._texts = {key: join_names(dict.fromkeys(group)) for key, group in names.items()}
        self._exports = exports

    @cached_property
    def _groups(self) -> Mapping[_Group, frozenset[str]]:
        """The names in each group; what is bound in two tables may be missing only by both."""
        groups: dict[_Group, frozenset[str]] = {}
        for (ordinal, weak), text in self._texts.items():
            names = frozenset(decode_names(text))
            if ordinal == WEAK_LOOKUP:
                names -= self._exports.among(names)
            group = (self._libraries[ordinal], weak)
            groups[group] = groups[group] | names if group in groups else names
        for library, weak in groups:
            if weak:
                groups[library, weak] -= groups.get((library, False), frozenset())
        return {group: names for group, names in groups.items() if names}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name once."""
        return frozenset().union(*self._groups.values())

    @cached_property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, ""): Mach-O symbols have no versions."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        for (library, _), names in self._groups.items():
            found[library, ""] = found.get((library, ""), frozenset()) | names
        return found

    @cached_property
    def strong(self) -> Mapping[str, frozenset[str]]:
        """By the library that they are asked of, the names that must be there."""
        return {library: names for (library, weak), names in self._groups.items() if not weak}

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of that name, one a library that it is asked of."""
        return tuple(
            Symbol(name=name, library=library, weak=weak)
            for (library, weak), names in self._groups.items()
            if name in names
        )

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it has; few are looked for without reading them all."""
        wanted = frozenset(names)
        return wanted & self.names if len(wanted) > _FEW else frozenset(filter(self._has, wanted))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(name)

    def _has(self, name: str) -> bool:
        asked = {ordinal for (ordinal, _), text in self._texts.items() if holds(text, name)}
        return bool(asked - {WEAK_LOOKUP}) or (bool(asked) and not self._exports.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        for (library, weak), names in self._groups.items():
            for name in sorted(names):
                yield Symbol(name=name, library=library, weak=weak)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __repr__(self) -> str:
        return f"<{sum(text.count(0) - 1 for text in self._texts.values())} imports>"
