"""Looks for the version nodes that objects need in the libraries that they get (dl-version.c)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

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
    for image in images:
        objects = {layout.label(item.path): item for item in image.objects}
        for library, answers in zip(image.objects, image.answers, strict=True):
            if answers in seen or not library.symbol_versions or not layout.is_own(library):
                continue
            seen.add(answers)
            for edge in answers.edges:
                if (edge.path, edge.resolved) in judged:
                    continue
                judged.add((edge.path, edge.resolved))
                for item in _missing_of(library, edge, objects.get(edge.resolved or ""), target):
                    key = (item.path, item.library, item.version)
                    found.setdefault(key, replace(item, root=image.root.path))
    return tuple(found[key] for key in sorted(found))


def _missing_of(
    library: ElfFile, edge: Edge, provider: ElfFile | None, target: TargetSystem
) -> Iterator[MissingVersion]:
    for need in library.symbol_versions:
        if need.library != edge.needed or need.weak:
            continue
        lacks = (
            _lacks(provider, library, need)
            if provider
            else _system_lacks(edge.resolved or "", need.version, target)
        )
        if lacks:
            yield MissingVersion(
                path=library.path,
                library=need.library,
                version=need.version,
                provider=edge.resolved or "",
                versioned=provider is None or bool(provider.defined_versions),
            )


def _lacks(provider: ElfFile, library: ElfFile, need: NeededVersion) -> bool:
    """Whether ld.so refuses; a provider without versions it only refuses when a symbol is bound.

    It then aborts, unless the provider has a version table for its own needs: those symbols it
    takes for unversioned, and says no more than "no version information available".
    """
    if provider.defined_versions:
        return need.version not in provider.defined_versions
    if provider.symbol_versions:
        return False
    return any(
        symbol.library == need.library
        and symbol.version == need.version
        and symbol.name in provider.exports.names
        for symbol in library.imports
    )


def _system_lacks(resolved: str, version: str, target: TargetSystem) -> bool:
    """Whether no release of the system's library has it, though the policy's numbers allow it."""
    data = target.library_data.get(resolved.removeprefix("system:"))
    if data is None or not data.versions or version in data.versions:
        return False
    return target.policy is None or target.policy.allows(version) is not False
