"""How glibc's ld.so finds the libraries that an object needs (ld.so(8); elf/dl-load.c)."""

from __future__ import annotations

import functools
import re

from binary_checks.loaders.loader import Directory, places
from binary_checks.model import ElfFile, Rule

SKIPS_FOREIGN_FILES = True
"""A file of another architecture is skipped, and the search continues."""
CHECKS_VERSIONS = True
"""Needed version nodes are checked, and references match by version."""
PYTHON_IS_GLOBAL = True
"""Python's functions are found without being needed."""

_LOADER = re.compile(r"ld(?:64|-linux.*)?\.so\.\d")  # ld-linux-x86-64.so.2, ld64.so.1 …
# Libraries that every CPython on Linux has loaded before it imports anything.
_INTERPRETERS_OWN = frozenset(
    {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1"}
)
# Needs of system libraries, which may be in any folder.
_SYSTEM_NEEDS = {
    "libstdc++.so.6": ("libm.so.6", "libgcc_s.so.1"),
    "libgobject-2.0.so.0": ("libglib-2.0.so.0",),
    "libgthread-2.0.so.0": ("libglib-2.0.so.0",),
    "libXext.so.6": ("libX11.so.6",),
    "libXrender.so.1": ("libX11.so.6",),
    "libSM.so.6": ("libICE.so.6",),
}


def hand_down(library: ElfFile) -> tuple[Directory, ...]:
    """Return the directories that a library adds to the search for its direct and indirect needs.

    These are its DT_RPATH. An object with a DT_RUNPATH adds none, because ld.so then ignores its
    DT_RPATH (gABI chapter 5, "Shared Object Dependencies").
    """
    if library.runpath or library.rpath in {(), ("",)}:
        return ()
    return places(library.rpath, Rule.RPATH, library)


def search(library: ElfFile) -> tuple[Directory, ...] | None:
    """Return the directories for a library's own needs: its DT_RUNPATH; None if it has none.

    A DT_RUNPATH, even an empty one, replaces all DT_RPATHs handed down.
    """
    if library.runpath:
        empty = library.runpath == ("",)
        return () if empty else places(library.runpath, Rule.RUNPATH, library)
    return None


def names_of(library: ElfFile, requested: str) -> frozenset[str]:
    """Return the needed names that a loaded library satisfies: its soname, the name requested."""
    return frozenset({library.name, requested} - {""})


@functools.cache
def preloaded(libraries: frozenset[str]) -> tuple[str, ...]:
    """Return the system libraries that a Python process has loaded from the start."""
    return tuple(
        sorted(name for name in libraries if name in _INTERPRETERS_OWN or _LOADER.fullmatch(name))
    )


@functools.cache
def system_needs(name: str, libraries: frozenset[str]) -> tuple[str, ...]:
    """Return the needs of a system library, regardless of its folder: at least libc."""
    core = sorted(item for item in libraries if item == "libc.so.6" or _LOADER.fullmatch(item))
    return (*_SYSTEM_NEEDS.get(name, ()), *core)


def answers_itself(name: str) -> bool:
    """Return whether the loader itself serves as the library of that name: never for glibc."""
    del name
    return False
