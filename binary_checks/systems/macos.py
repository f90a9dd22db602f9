"""The macOS that a package promises to run on, from its claims."""

from __future__ import annotations

from functools import partial

from binary_checks.model import Claims, SystemClaim, SystemLibrary, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import (
    SystemLibraries,
    macos_exports,
    macos_libraries,
    macos_libraries_partly,
)

SIMULATED = ("x86_64", "aarch64")  # macOS does not run i686 since 10.15, nor ppc since 10.7
_FIRST_ON_ARM = (11, 0)
_OLDEST = (10, 9)  # oldest macOS in the data: promised by a claim without a version
_ANY = frozenset({""})


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return the oldest macOS that is claimed, with all claimed architectures."""
    systems = [each for each in claims.systems if each.system == "macos" and _architectures(each)]
    lowest = min(systems, key=lambda claim: (_version(claim), claim.name))
    minimum = _version(lowest)
    architectures = dict.fromkeys(name for each in systems for name in _architectures(each))
    judged = {claim.name for claim in systems}
    python = interpreter_of(claims.pythons, "macos")
    return TargetSystem(
        name=", ".join(filter(None, (lowest.name, format_interpreter(python)))),
        system="macos",
        libc="",
        architectures=tuple(architectures),
        minimum_os=minimum,
        libraries=macos_libraries(minimum) | extra_libraries.union(claims.provided),
        partly=macos_libraries_partly(minimum),
        interpreter=python,
        interpreters=Interpreters("macos"),
        library_data=SystemLibraries(
            macos_libraries(minimum), partial(_find_library, minimum=minimum)
        ),
        unjudged=tuple(item.name for item in claims.systems if item.name not in judged),
    )


def _architectures(claim: SystemClaim) -> tuple[str, ...]:
    return tuple(name for name in claim.architectures if name in SIMULATED)


def _version(claim: SystemClaim) -> tuple[int, int]:
    version = claim.minimum or _OLDEST
    return max(version, _FIRST_ON_ARM) if claim.architectures == ("aarch64",) else version


def _find_library(name: str, minimum: tuple[int, int]) -> SystemLibrary | None:
    """Return the library; each symbol's version is the first macOS with the symbol."""
    known = macos_exports(name, minimum)
    if known is None:
        return None
    symbols: dict[str, frozenset[str]] = {}
    for first, names in known.items():
        node = frozenset({"{}.{}".format(*first)}) if first else _ANY
        symbols.update(dict.fromkeys(names, node))
    return SystemLibrary(soname=name, symbols=symbols, versions=frozenset())
