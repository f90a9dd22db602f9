"""Compares the versions of one of NVIDIA's libraries: of its headers, loaded, installed, pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.utils import canonicalize_name

from binary_checks.model import Finding, LibraryVersions, NotInspected, Package
from binary_checks.model.requires_dist import read_requirement


def find_untold(known: tuple[LibraryVersions, ...], asked: Mapping[str, str]) -> Iterator[str]:
    """Name the libraries that are there, for all that is known, of unknown headers."""
    by_name = {each.name: each for each in known}
    for name in sorted(asked):
        each = by_name.get(name)
        if each is None or (not each.compiled and (each.loaded or each.installed)):
            yield f"{name}: the package does not report the version it was built with"


def find_pins(package: Package) -> dict[str, str]:
    """Find the exact versions of NVIDIA's distributions that it requires, by library."""
    found = {}
    for requirement in map(read_requirement, package.claims.requirements):
        if requirement is None:
            continue
        prefix, _, rest = canonicalize_name(requirement.name).partition("-")
        versions = [each.version for each in requirement.specifier if each.operator == "=="]
        if prefix == "nvidia" and versions and "*" not in versions[0]:
            found[rest.partition("-cu")[0]] = versions[0]
    return found


def compare_expected(
    known: tuple[LibraryVersions, ...], expected: Mapping[str, str]
) -> Iterator[Finding]:
    """Hold the libraries that are loaded, or else installed, against what a profile expects."""
    by_name = {each.name: each for each in known}
    for name, version in sorted(expected.items()):
        each = by_name.get(name, LibraryVersions(name=name))
        there, how = (each.loaded, "loaded") if each.loaded else (each.installed, "installed")
        if not there:
            yield NotInspected(sentence=f"{name}: it is neither loaded nor installed")
        elif not f"{there}.".startswith(f"{version}."):
            yield f"{name} {there} is {how}, but the profile expects {version}"


def compare_loaded(versions: LibraryVersions, pin: str, *, newer: bool) -> Iterator[str]:
    """Hold the library that is loaded against the three others."""
    name, loaded = versions.name, versions.loaded
    if versions.compiled and not _serves(loaded, versions.compiled, newer=newer):
        yield f"{name} {loaded} is loaded, but the package was built with {versions.compiled}"
    if versions.installed and not _same(loaded, versions.installed):
        yield f"{name} {loaded} is loaded, but {versions.installed} is installed"
    if pin and not _same(loaded, pin):
        yield f"{name} {loaded} is loaded, but the package requires {pin}"


def compare_installed(versions: LibraryVersions, pin: str, *, newer: bool) -> Iterator[str]:
    """Hold the library that is installed, and not loaded by then, against the two others."""
    name, installed = versions.name, versions.installed
    if versions.compiled and not _serves(installed, versions.compiled, newer=newer):
        yield f"{name} {installed} is installed, but the package was built with {versions.compiled}"
    if pin and not _same(installed, pin):
        yield f"{name} {installed} is installed, but the package requires {pin}"


def _serves(there: str, built: str, *, newer: bool) -> bool:
    length = min(_length(there), _length(built))
    one, other = _cut(there, length), _cut(built, length)
    return one == other or (newer and one[:1] == other[:1] and one > other)


def _same(one: str, other: str) -> bool:
    length = min(_length(one), _length(other))
    return _cut(one, length) == _cut(other, length)


def _length(version: str) -> int:
    return min(version.count(".") + 1, 3)


def _cut(version: str, length: int) -> tuple[int, ...]:
    parts = version.split(".")[:length]
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else -1 for part in parts)
