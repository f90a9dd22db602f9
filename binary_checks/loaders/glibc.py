"""How glibc's ld.so looks for what an object needs (ld.so(8), elf/dl-load.c)."""

from __future__ import annotations

import functools
import re

from binary_checks.loaders.loader import Directory, places
from binary_checks.model import ElfFile, Rule

SKIPS_FOREIGN_FILES = True
"""A file of another architecture is passed over, and the search goes on."""
CHECKS_VERSIONS = True
"""Needed version nodes are looked for, and references match by version."""

_LOADER = re.compile(r"ld(?:64|-linux.*)?\.so\.\d")
# What every CPython on Linux has loaded before it imports anything.
_INTERPRETERS_OWN = frozenset(
    {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1"}
)
# What a library of the system brings along wherever it comes from.
_SYSTEM_NEEDS = {
    "libstdc++.so.6": ("libm.so.6", "libgcc_s.so.1"),
    "libgobject-2.0.so.0": ("libglib-2.0.so.0",),
    "libgthread-2.0.so.0": ("libglib-2.0.so.0",),
    "libXext.so.6": ("libX11.so.6",),
    "libXrender.so.1": ("libX11.so.6",),
    "libSM.so.6": ("libICE.so.6",),
}


def hand_down(library: ElfFile) -> tuple[Directory, ...]:
    """What the library's search path means for what it loads: RPATH reaches all descendants.

    An object that has a RUNPATH contributes none, since ld.so then forgets its RPATH.
    """
    if library.runpath or library.rpath in {(), ("",)}:
        return ()
    return places(library.rpath, Rule.RPATH, library)


def search(library: ElfFile) -> tuple[Directory, ...] | None:
    """The places for what it needs itself; a RUNPATH, even an empty one, ends all RPATHs.

    None where they are those handed down.
    """
    if library.runpath:
        empty = library.runpath == ("",)
        return () if empty else places(library.runpath, Rule.RUNPATH, library)
    return None


def names_of(library: ElfFile, requested: str) -> frozenset[str]:
    """The needed names that the library satisfies once it is loaded."""
    return frozenset({library.name, requested} - {""})


@functools.cache
def preloaded(libraries: frozenset[str]) -> tuple[str, ...]:
    """Those libraries of the system that a Python process has before it imports anything."""
    return tuple(
        sorted(name for name in libraries if name in _INTERPRETERS_OWN or _LOADER.fullmatch(name))
    )


@functools.cache
def system_needs(name: str, libraries: frozenset[str]) -> tuple[str, ...]:
    """What a library of the system has with it wherever it comes from: at least libc."""
    core = sorted(item for item in libraries if item == "libc.so.6" or _LOADER.fullmatch(item))
    return (*_SYSTEM_NEEDS.get(name, ()), *core)


def answers_itself(name: str) -> bool:
    """Whether the loader takes itself for that library, without a search."""
    del name
    return False
