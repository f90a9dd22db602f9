"""Turns a claim of Windows into the system that it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.model import SystemLibrary, TargetSystem
from binary_checks.model.packages import Claims
from binary_checks.systems.claimed_python import Interpreters, interpreter_of, spell_interpreter
from binary_checks.systems.windows_libraries import (
    api_sets,
    windows_libraries,
    windows_libraries_partly,
    windows_library,
)

_ARCHITECTURES = ("x86_64", "i686", "aarch64")


def windows_target(
    claims: Claims,
    extra_libraries: frozenset[str] = frozenset(),
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """A clean Windows of the claimed architecture, with the Python that is claimed.

    Of claims for several architectures x86_64 is judged, and the others are ``unjudged``.
    """
    by_architecture = {
        name: claim
        for claim in claims.systems
        if claim.system == "windows"
        for name in claim.architectures
    }
    architecture = next(name for name in _ARCHITECTURES if name in by_architecture)
    judged = by_architecture[architecture]
    python = interpreter_of(claims.pythons, "windows", architecture)
    return TargetSystem(
        name=", ".join(filter(None, (judged.name, spell_interpreter(python)))),
        system="windows",
        libc="",
        architectures=(architecture,),
        libraries=windows_libraries(architecture).union(
            api_sets(), map(str.lower, extra_libraries.union(claims.provided))
        ),
        partly=windows_libraries_partly(architecture),
        interpreter=python,
        interpreters=Interpreters("windows", architecture),
        library_data=_LibraryData(architecture),
        dll_directories=dll_directories,
        unjudged=tuple(item.name for item in claims.systems if item is not judged),
    )


class _LibraryData(Mapping[str, SystemLibrary]):
    """What the system's DLLs export, where that is known, each read when it is asked for."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture

    def __getitem__(self, name: str) -> SystemLibrary:
        found = windows_library(name, self._architecture)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(windows_libraries(self._architecture)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
