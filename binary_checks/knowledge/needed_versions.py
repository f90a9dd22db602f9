"""Finds which version of the system an object needs: by version nodes, or by its symbols' age."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from binary_checks.model import ElfFile, Linkage, NeededVersion, Policy, SystemLibrary
from binary_checks.model.system import read_numbers
from binary_checks.wording.symbol_texts import list_symbols


def needed_of_system(library: ElfFile, linkage: Linkage) -> list[NeededVersion]:
    """The version nodes that libraries of the system must have."""
    edges = linkage.edges_of(library.path, library.architecture)
    system = {e.needed for e in edges if e.resolved and e.resolved.startswith("system:")}
    return [n for n in library.symbol_versions if n.library in system and not n.weak]


def lowest_policy(needs: Iterable[NeededVersion], policies: Iterable[Policy]) -> Policy | None:
    """The first policy that allows all of these version nodes."""
    versions = {need.version for need in needs}
    return next(
        (p for p in policies if all(p.allows(version) is not False for version in versions)), None
    )


def describe_nodes(library: ElfFile, newer: Iterable[NeededVersion]) -> str:
    """The newest node of each prefix, with symbols that ask for it."""
    newest: dict[str, NeededVersion] = {}
    for need in sorted(newer, key=lambda need: read_numbers(need.version.partition("_")[2])):
        newest[need.version.partition("_")[0]] = need
    return " and ".join(_with_symbols(library, newest[prefix]) for prefix in sorted(newest))


def _with_symbols(library: ElfFile, need: NeededVersion) -> str:
    names = sorted(s.name for s in library.imports if s.version == need.version)
    asked_by = f" ({list_symbols(names)})" if names else ""
    return f"{need.version} of {need.library}{asked_by}"


def find_newer(
    system: SystemLibrary, names: Collection[str], macos: tuple[int, int]
) -> dict[str, tuple[int, ...]]:
    """Those of the names that a library got after a macOS, and the macOS that had them first."""
    known = system.symbols
    newer = {each: _latest(each) for each in set(map(known.get, names)) if each}
    newer = {each: first for each, first in newer.items() if first > macos}
    if not newer:  # nearly always
        return {}
    return {name: newer[known[name]] for name in names if known.get(name) in newer}


def _latest(versions: Collection[str]) -> tuple[int, ...]:
    known = (tuple(map(int, version.split("."))) for version in versions if version)
    return max(known, default=())
