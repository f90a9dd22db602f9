"""The Windows that a package promises to run on, from its claims."""

from __future__ import annotations

from functools import partial

from binary_checks.model import Claims, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import (
    SystemLibraries,
    api_sets,
    windows_libraries,
    windows_libraries_partly,
    windows_library,
)

SIMULATED = ("x86_64", "i686", "aarch64")


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return a clean Windows of the claimed architecture with the claimed Python.

    If several architectures are claimed, x86_64 is judged, and the others are ``unjudged``.
    """
    by_architecture = {
        name: claim
        for claim in claims.systems
        if claim.system == "windows"
        for name in claim.architectures
    }
    architecture = next(name for name in SIMULATED if name in by_architecture)
    judged = by_architecture[architecture]
    python = interpreter_of(claims.pythons, "windows", architecture)
    return TargetSystem(
        name=", ".join(filter(None, (judged.name, format_interpreter(python)))),
        system="windows",
        libc="",
        architectures=(architecture,),
        libraries=windows_libraries(architecture).union(
            api_sets(), map(str.lower, extra_libraries.union(claims.provided))
        ),
        partly=windows_libraries_partly(architecture),
        interpreter=python,
        interpreters=Interpreters("windows", architecture),
        library_data=SystemLibraries(
            windows_libraries(architecture), partial(windows_library, architecture=architecture)
        ),
        unjudged=tuple(item.name for item in claims.systems if item is not judged),
    )
