"""Turns the tags of a wheel into the system that they promise to run on."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.tags import Tag

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import TargetSystem

_NOT_SIMULATED = {"ios_": "iOS", "android_": "Android", "wasi": "WASI", "emscripten": "Emscripten"}


def target_for(
    wheel_tags: Iterable[Tag],
    extra_libraries: frozenset[str],
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """The least that a compressed set of tags claims to run on: every tag of it is a claim.

    Where the set names systems that cannot be compared one of them is the target, Linux before
    macOS before Windows, and the tags of the others are ``unjudged``.
    ``extra_libraries`` are names that the users of this package have besides, ``dll_directories``
    where their Windows looks for DLLs. Raises Unavailable for a system whose loader is not
    simulated or of whose libraries there are no data, NotApplicable for tags that name no system.
    """
    tags = tuple(wheel_tags)
    platforms = sorted({tag.platform for tag in tags})
    # Each system's data are many; those of the others are not imported.
    if _any_begins(platforms, "linux_", "manylinux", "musllinux_"):
        from binary_checks.systems.promised_linux import is_linux, linux_target

        if any(map(is_linux, platforms)):
            return linux_target(tags, extra_libraries)
    if _any_begins(platforms, "macosx_"):
        from binary_checks.systems.promised_macos import is_macos, macos_target

        if any(map(is_macos, platforms)):
            return macos_target(tags, extra_libraries)
    if _any_begins(platforms, "win"):
        from binary_checks.systems.promised_windows import is_windows, windows_target

        if any(map(is_windows, platforms)):
            return windows_target(tags, extra_libraries, dll_directories)
    names = ", ".join(platforms) or "no tag"
    system = next((s for b, s in _NOT_SIMULATED.items() for n in platforms if n.startswith(b)), "")
    if system or any(name != "any" for name in platforms):
        raise Unavailable(f"the loader of {system or 'that system'} is not simulated ({names})")
    raise NotApplicable(f"no loader for {names}")


def _any_begins(names: Iterable[str], *beginnings: str) -> bool:
    return any(name.startswith(beginnings) for name in names)
