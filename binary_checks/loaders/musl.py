"""How musl's loader finds the libraries that an object needs (ldso/dynlink.c)."""

from __future__ import annotations

import re

from binary_checks.loaders.loader import Directory, places
from binary_checks.model import ElfFile, Rule

SKIPS_FOREIGN_FILES = False
"""The first file with the name is taken, even if it is for another architecture."""
CHECKS_VERSIONS = False
"""Symbol versions are ignored: only names count."""
PYTHON_IS_GLOBAL = True
"""Python's functions are found without being needed."""

# The reserved names in dynlink.c (``load_library``); any text after the dot is accepted, as in
# libc.so.6.
_ITSELF = re.compile(r"lib(?:c|pthread|rt|m|dl|util|xnet)\..*|ld-musl-.*\.so\.1")
_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})")


def hand_down(library: ElfFile) -> tuple[Directory, ...]:
    """Return the directories that a library adds to the search for its direct and indirect needs.

    musl treats DT_RPATH and DT_RUNPATH alike.
    """
    rule = Rule.RUNPATH if library.runpath else Rule.RPATH
    elements = library.runpath or library.rpath
    if any("$" in _ORIGIN.sub("", element) for element in elements):
        return ()  # musl knows no other token, and drops a path that contains one
    # musl skips an empty element; for glibc it is the current directory.
    return places(filter(None, elements), rule, library)


def search(library: ElfFile) -> tuple[Directory, ...] | None:
    """Return None: a library's own needs are searched for in the directories handed down."""
    del library
    return None


def names_of(library: ElfFile, requested: str) -> frozenset[str]:
    """Return the needed names that a loaded library satisfies: its file name, never its soname."""
    return frozenset({library.file_name} if "/" not in requested else ())


def preloaded(libraries: frozenset[str]) -> tuple[str, ...]:
    """Return the system libraries that a Python process has loaded from the start."""
    return tuple(sorted(name for name in libraries if name.startswith("libc.musl-")))


def system_needs(name: str, libraries: frozenset[str]) -> tuple[str, ...]:
    """Return the needs of a system library, regardless of its folder: libc, which is the loader."""
    del name
    return preloaded(libraries)


def answers_itself(name: str) -> bool:
    """Return whether the loader itself serves as the library of that name (libc, libm …)."""
    return _ITSELF.fullmatch(name) is not None
