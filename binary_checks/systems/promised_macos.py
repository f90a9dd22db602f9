"""Turns the macOS tags of a wheel into the system that they promise to run on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.tags import Tag

from binary_checks.model import SystemLibrary, TargetSystem
from binary_checks.systems.macos_libraries import macos_exports, macos_libraries, partly_there
from binary_checks.systems.python_tags import interpreter_of, spell_interpreter

_MACOS = re.compile(r"macosx_(?P<major>\d+)_(?P<minor>\d+)_(?P<architecture>\w+)")
_ARCHITECTURES = {
    "x86_64": ("x86_64",),
    "arm64": ("aarch64",),
    "universal2": ("x86_64", "aarch64"),
    "intel": ("x86_64",),  # and i686, which no macOS since 10.15 runs
    "universal": ("x86_64",),
    "fat3": ("x86_64",),
    "fat64": ("x86_64",),
}
_FIRST_ON_ARM = (11, 0)
_ANY = frozenset({""})


def is_macos(platform: str) -> bool:
    """Whether a platform tag names a macOS whose loader can be simulated."""
    match = _MACOS.fullmatch(platform)
    return match is not None and match["architecture"] in _ARCHITECTURES


def macos_target(
    tags: tuple[Tag, ...], extra_libraries: frozenset[str] = frozenset()
) -> TargetSystem:
    """The oldest macOS that the tags claim, on every architecture that they claim."""
    platforms = sorted({tag.platform for tag in tags})
    claims = {name: match for name in platforms if is_macos(name) and (match := _MACOS.match(name))}
    lowest = min(claims, key=lambda name: (_version(claims[name]), name))
    minimum = _version(claims[lowest])
    several = [_ARCHITECTURES[match["architecture"]] for match in claims.values()]
    python = interpreter_of(tags, "macos")
    return TargetSystem(
        name=", ".join(filter(None, (lowest, spell_interpreter(python)))),
        system="macos",
        libc="",
        architectures=tuple(dict.fromkeys(name for each in several for name in each)),
        minimum_os=minimum,
        libraries=macos_libraries(minimum) | extra_libraries,
        partly=partly_there(minimum),
        interpreter=python,
        library_data=_LibraryData(minimum),
        unjudged=tuple(name for name in platforms if name not in claims),
    )


def _version(match: re.Match[str]) -> tuple[int, int]:
    version = (int(match["major"]), int(match["minor"]))
    return max(version, _FIRST_ON_ARM) if match["architecture"] == "arm64" else version


class _LibraryData(Mapping[str, SystemLibrary]):
    """What the system's libraries export on that macOS, each read when it is asked for."""

    def __init__(self, minimum: tuple[int, int]) -> None:
        self._minimum = minimum
        self._known: dict[str, SystemLibrary | None] = {}

    def __getitem__(self, name: str) -> SystemLibrary:
        if name not in self._known:
            self._known[name] = _find_library(name, self._minimum)
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(macos_libraries(self._minimum)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _find_library(name: str, minimum: tuple[int, int]) -> SystemLibrary | None:
    """The library with the macOS that first had a symbol in the place of its version."""
    known = macos_exports(name, minimum)
    if known is None:
        return None
    symbols: dict[str, frozenset[str]] = {}
    for first, names in known.items():
        node = frozenset({"{}.{}".format(*first)}) if first else _ANY
        symbols.update(dict.fromkeys(names, node))
    return SystemLibrary(soname=name, symbols=symbols, versions=frozenset())
