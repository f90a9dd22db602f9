"""The Android that a package promises to run on (PEP 738): an API level and an architecture."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.model import Claims, SystemLibrary, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import read_committed

SIMULATED = ("aarch64", "x86_64", "armv7l", "i686")
_OF_OBJECTS = {"armv7l": "armel"}  # armeabi-v7a passes floating point in integer registers
_OLDEST = (21, 0)  # of Python 3.13, the first that supports Android


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return the oldest Android that is claimed for the first architecture of `SIMULATED`.

    The libraries are those that apps may use; from API level 24 on, the loader refuses all others.
    """
    systems = [each for each in claims.systems if each.system == "android"]
    claim = min(
        (each for each in systems if set(each.architectures) & {*SIMULATED}),
        key=lambda each: (SIMULATED.index(each.architectures[0]), each.minimum or _OLDEST),
    )
    (architecture,) = claim.architectures
    minimum = claim.minimum or _OLDEST
    python = interpreter_of(claims.pythons)
    public = _content()["public"]
    level = minimum[0]
    return TargetSystem(
        name=", ".join(filter(None, (claim.name, format_interpreter(python)))),
        system="android",
        libc="bionic",
        architectures=(_OF_OBJECTS.get(architecture, architecture),),
        minimum_os=minimum,
        libraries=extra_libraries.union(
            claims.provided, (name for name, since in public.items() if since <= level)
        ),
        partly={
            name: f"Android with API level {since} and later"
            for name, since in public.items()
            if since > level
        },
        interpreter=python,
        interpreters=Interpreters(),
        library_data=_Libraries(architecture, level),
        unjudged=tuple(each.name for each in claims.systems if each is not claim),
    )


class _Libraries(Mapping[str, SystemLibrary]):
    """The exports of public libraries; the version of a symbol is the first API level with it.

    The version 0.0 marks symbols that are not for apps. A library whose data are older than the
    promised API level is not contained, because it may have further symbols.
    """

    def __init__(self, architecture: str, level: int) -> None:
        self._architecture, self._level = architecture, level

    def __getitem__(self, soname: str) -> SystemLibrary:
        if self._level > _content()["newest"].get(soname, 0):
            raise KeyError(soname)
        return _read_library(soname, self._architecture)

    def __iter__(self) -> Iterator[str]:
        newest: Mapping[str, int] = _content()["newest"]
        return (name for name in sorted(newest) if newest[name] >= self._level)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def _read_library(soname: str, architecture: str) -> SystemLibrary:
    """Return a library. Raises KeyError for one without data."""
    by_level: Mapping[str, str] = _content()["libraries"][soname].get(architecture, {})
    symbols: dict[str, frozenset[str]] = {}
    for level, names in by_level.items():
        symbols.update(dict.fromkeys(names.split(" "), frozenset({f"{level}.0"})))
    return SystemLibrary(soname=soname, symbols=symbols, versions=frozenset())


@functools.cache
def _content() -> Any:
    return read_committed("android.json.gz")
