"""Looks for the version nodes that objects need in the libraries that they get (dl-version.c)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.image import Image
from binary_checks.loaders.searches import Answers
from binary_checks.model import Edge, ElfFile, MissingVersion, NeededVersion, TargetSystem


def find_missing_versions(
    images: Iterable[Image[ElfFile]], layout: FileLayout[ElfFile], target: TargetSystem
) -> tuple[MissingVersion, ...]:
    """Every needed version node, weak ones apart, that its library lacks in some process."""
    found: dict[tuple[str, str, str], MissingVersion] = {}
    judged: set[tuple[str, str | None]] = set()
    seen: set[Answers] = set()
    known: dict[str, _Versions] = {}
    for image in images:
        objects = {layout.label(item.path): item for item in image.objects}
        for library, answers in zip(image.objects, image.answers, strict=True):
            if answers in seen or not library.symbol_versions or not layout.is_own(library):
                continue
            seen.add(answers)
            needs = _find(library, known)
            for edge in answers.edges:
                if (edge.path, edge.resolved) in judged:
                    continue
                judged.add((edge.path, edge.resolved))
                provider = objects.get(edge.resolved or "")
                has = None if provider is None else _find(provider, known)
                for item in _missing_of(needs, edge, has, target):
                    key = (item.path, item.library, item.version)
                    found.setdefault(key, replace(item, root=image.root.path))
    return tuple(found[key] for key in sorted(found))


def _find(library: ElfFile, known: dict[str, _Versions]) -> _Versions:
    if library.path not in known:
        known[library.path] = _Versions(library)
    return known[library.path]


class _Versions:
    """The versions that an object needs and defines, and the symbols that it binds to them."""

    def __init__(self, library: ElfFile) -> None:
        self.path = library.path
        self.library = library
        self.defined = frozenset(library.defined_versions)
        self._by_library: dict[str, list[NeededVersion]] = {}
        for need in library.symbol_versions:
            if not need.weak:
                self._by_library.setdefault(need.library, []).append(need)

    def of(self, library: str) -> Sequence[NeededVersion]:
        """The versions that a library must have."""
        return self._by_library.get(library, ())

    def bound(self, need: NeededVersion) -> Collection[str]:
        """The names of the symbols that are bound to a version."""
        return self._bound.get((need.library, need.version), ())

    @cached_property
    def _bound(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for symbol in self.library.imports:
            found.setdefault((symbol.library, symbol.version), []).append(symbol.name)
        return found


def _missing_of(
    needs: _Versions, edge: Edge, provider: _Versions | None, target: TargetSystem
) -> Iterator[MissingVersion]:
    for need in needs.of(edge.needed):
        lacks = (
            _lacks(provider, needs, need)
            if provider
            else _system_lacks(edge.resolved or "", need.version, target)
        )
        if lacks:
            yield MissingVersion(
                path=needs.path,
                library=need.library,
                version=need.version,
                provider=edge.resolved or "",
                versioned=provider is None or bool(provider.defined),
            )


def _lacks(provider: _Versions, needs: _Versions, need: NeededVersion) -> bool:
    """Whether ld.so refuses; a provider without versions it only refuses when a symbol is bound.

    It then aborts, unless the provider has a version table for its own needs: those symbols it
    takes for unversioned, and says no more than "no version information available".
    """
    if provider.defined:
        return need.version not in provider.defined
    if provider.library.symbol_versions:
        return False
    return not provider.library.exports.names.isdisjoint(needs.bound(need))


def _system_lacks(resolved: str, version: str, target: TargetSystem) -> bool:
    """Whether no release of the system's library has it, though the policy's numbers allow it."""
    data = target.library_data.get(resolved.removeprefix("system:"))
    if data is None or not data.versions or version in data.versions:
        return False
    return target.policy is None or target.policy.allows(version) is not False
