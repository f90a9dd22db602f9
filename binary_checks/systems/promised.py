"""The system that a package promises to run on, from its claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import ANY_SYSTEM, Claims, TargetSystem
from binary_checks.systems import android, emscripten, ios, linux, macos, windows


class _Simulated(NamedTuple):
    """A system whose loader is simulated."""

    system: str  # as in `SystemClaim`
    architectures: frozenset[str] | None  # those that are simulated; None: all
    make_target: Callable[[Claims, frozenset[str]], TargetSystem]


SYSTEMS = (
    _Simulated("linux", None, linux.make_target),
    _Simulated("macos", frozenset(macos.SIMULATED), macos.make_target),
    _Simulated("windows", frozenset(windows.SIMULATED), windows.make_target),
    _Simulated("android", frozenset(android.SIMULATED), android.make_target),
    _Simulated("ios", frozenset(ios.SIMULATED), ios.make_target),
    _Simulated("emscripten", frozenset(emscripten.SIMULATED), emscripten.make_target),
)
"""If a package claims several systems, the first of these is judged."""

_NOT_SIMULATED = {
    "wasi": "WASI",
    "freebsd": "FreeBSD",
}
"""Beginning of a system's name in claims and tags -> common name of the system."""


def target_for(
    claims: Claims,
    extra_libraries: frozenset[str],
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """Return the oldest system that a package promises to support, as each claim is a promise.

    If the package claims several kinds of systems, the first in SYSTEMS is the target, and the
    others are ``unjudged``. ``extra_libraries`` are further libraries that the package's users
    have, ``dll_directories`` further directories in which Windows looks for DLLs. Raises
    Unavailable for a system whose loader is not simulated or whose libraries are unknown,
    NotApplicable if no system is claimed.
    """
    for each in SYSTEMS:
        if _claims(claims, each):
            target = each.make_target(claims, extra_libraries)
            return replace(target, dll_directories=dll_directories)
    names = ", ".join(each.name for each in claims.systems) or "no system"
    others = (
        _NOT_SIMULATED.get(each.system or each.name.partition("_")[0]) for each in claims.systems
    )
    system = next(filter(None, others), "")
    if system or any(each.system != ANY_SYSTEM for each in claims.systems):
        raise Unavailable(f"the loader of {system or 'that system'} is not simulated ({names})")
    raise NotApplicable(f"no loader for {names}")


def _claims(claims: Claims, simulated: _Simulated) -> bool:
    known = simulated.architectures
    return any(
        each.system == simulated.system
        and bool(each.architectures if known is None else known.intersection(each.architectures))
        for each in claims.systems
    )
