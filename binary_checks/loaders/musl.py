"""How musl's loader looks for what an object needs (ldso/dynlink.c)."""

from __future__ import annotations

import re

from binary_checks.loaders.loader import Directory, places
from binary_checks.model import ElfFile, Rule

SKIPS_FOREIGN_FILES = False
"""The first file of the name is taken, whatever it is."""
CHECKS_VERSIONS = False
"""Names alone count."""

# dynlink.c's list of reserved names: whatever stands behind the dot, libc.so.6 too.
_ITSELF = re.compile(r"lib(?:c|pthread|rt|m|dl|util|xnet)\..*|ld-musl-.*\.so\.1")
_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})")


def hand_down(library: ElfFile) -> tuple[Directory, ...]:
    """What the library's search path means for what it loads: RPATH and RUNPATH alike reach all."""
    rule = Rule.RUNPATH if library.runpath else Rule.RPATH
    elements = library.runpath or library.rpath
    if any("$" in _ORIGIN.sub("", element) for element in elements):
        return ()  # musl knows no other token, and drops a path that has one
    # An empty element is nothing to musl, where to glibc it is the current directory.
    return places(filter(None, elements), rule, library)


def search(library: ElfFile) -> tuple[Directory, ...] | None:
    """None: what it needs itself is looked for in the places that it hands down."""
    del library
    return None


def names_of(library: ElfFile, requested: str) -> frozenset[str]:
    """The needed names that the library satisfies once it is loaded: file names, never sonames."""
    return frozenset({library.file_name} if "/" not in requested else ())


def preloaded(libraries: frozenset[str]) -> tuple[str, ...]:
    """Those libraries of the system that a Python process has before it imports anything."""
    return tuple(sorted(name for name in libraries if name.startswith("libc.musl-")))


def system_needs(name: str, libraries: frozenset[str]) -> tuple[str, ...]:
    """What a library of the system has with it wherever it comes from: libc, the loader."""
    del name
    return preloaded(libraries)


def answers_itself(name: str) -> bool:
    """Whether the loader takes itself for that library, without a search: libc, libm, ..."""
    return _ITSELF.fullmatch(name) is not None
