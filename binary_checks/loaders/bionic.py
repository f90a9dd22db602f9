"""How Android's loader finds the libraries that an object needs (bionic, linker/linker.cpp)."""

from __future__ import annotations

from binary_checks.loaders.loader import Directory, places
from binary_checks.model import ElfFile, Rule

SKIPS_FOREIGN_FILES = False
"""A file of another architecture ends the search with an error."""
CHECKS_VERSIONS = False
"""The C library's nodes are not compared: the API level tells whether a symbol exists."""
PYTHON_IS_GLOBAL = False
"""Python's functions are found only through a needed libpython.

Symbols are looked up in the global group (the program, preloaded libraries) and in the objects that
an object needs. Python is a library that an app has opened by itself (PEP 738).
"""

_NEEDING_LIBC_ALONE = frozenset(
    {"libc.so", "libm.so", "libdl.so", "libstdc++.so", "liblog.so", "libz.so", "libicu.so"}
)
"""All other public libraries have liblog among ``shared_libs`` in their Android.bp (AOSP)."""


def hand_down(library: ElfFile) -> tuple[Directory, ...]:
    """Return nothing: the loader ignores DT_RPATH."""
    del library
    return ()


def search(library: ElfFile) -> tuple[Directory, ...] | None:
    """Return the directories for a library's own needs: its DT_RUNPATH (API level 24 and later)."""
    return places(filter(None, library.runpath), Rule.RUNPATH, library)


def names_of(library: ElfFile, requested: str) -> frozenset[str]:
    """Return the needed names that a loaded library satisfies: its soname, the name requested."""
    return frozenset({library.name or library.file_name, requested} - {""})


def preloaded(libraries: frozenset[str]) -> tuple[str, ...]:
    """Return nothing: what the process has loaded is in no object's scope unless it is needed."""
    del libraries
    return ()


def system_needs(name: str, libraries: frozenset[str]) -> tuple[str, ...]:
    """Return the needs of a system library: libc, and liblog for most of them.

    Their other needs are libraries of the platform, whose functions an app does not see.
    """
    needs = ("libc.so",) if name in _NEEDING_LIBC_ALONE else ("libc.so", "liblog.so")
    return tuple(each for each in needs if each != name and each in libraries)


def answers_itself(name: str) -> bool:
    """Return whether the loader itself serves as the library of that name: never."""
    del name
    return False
