"""Turns what a package claims into the system that it promises to run on."""

from __future__ import annotations

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import TargetSystem
from binary_checks.model.packages import ANY_SYSTEM, Claims

_NOT_SIMULATED = {
    "ios": "iOS",
    "android": "Android",
    "wasi": "WASI",
    "emscripten": "Emscripten",
    "pyodide": "Emscripten",
    "pyemscripten": "Emscripten",  # PEP 783
    "freebsd": "FreeBSD",
}
"""Systems as people call them, by how claims of them, and their tags, begin."""
_ON_MACOS = frozenset({"x86_64", "aarch64"})
_ON_WINDOWS = frozenset({"x86_64", "i686", "aarch64"})


def target_for(
    claims: Claims,
    extra_libraries: frozenset[str],
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """The least that a package claims to run on: every entry of its claims is a promise.

    Where it claims systems that cannot be compared one of them is the target, Linux before macOS
    before Windows, and the others are ``unjudged``.
    ``extra_libraries`` are names that the users of this package have besides, ``dll_directories``
    where their Windows looks for DLLs. Raises Unavailable for a system whose loader is not
    simulated or of whose libraries there are no data, NotApplicable for claims of no system.
    """
    # Each system's data are many; those of the others are not imported.
    if any(each.system == "linux" and each.architectures for each in claims.systems):
        from binary_checks.systems.promised_linux import linux_target

        return linux_target(claims, extra_libraries)
    if _claims(claims, "macos", _ON_MACOS):
        from binary_checks.systems.promised_macos import macos_target

        return macos_target(claims, extra_libraries)
    if _claims(claims, "windows", _ON_WINDOWS):
        from binary_checks.systems.promised_windows import windows_target

        return windows_target(claims, extra_libraries, dll_directories)
    names = ", ".join(each.name for each in claims.systems) or "no system"
    others = (_NOT_SIMULATED.get(each.system or _name_in(each.name)) for each in claims.systems)
    system = next(filter(None, others), "")
    if system or any(each.system != ANY_SYSTEM for each in claims.systems):
        raise Unavailable(f"the loader of {system or 'that system'} is not simulated ({names})")
    raise NotApplicable(f"no loader for {names}")


def _name_in(tag: str) -> str:
    """Return the name of the system with which a platform tag begins."""
    return tag.partition("_")[0]


def _claims(claims: Claims, system: str, simulated: frozenset[str]) -> bool:
    return any(
        each.system == system and not simulated.isdisjoint(each.architectures)
        for each in claims.systems
    )
