"""What a package's own Python code says of the object files in it, read without running it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeNames:
    """Paths of a package's objects, by what its Python code does with their names."""

    named: frozenset[str] = frozenset()
    """Those that it spells out: ``"libdemo.so"``, ``"libdemo"``, ``"_demo"``; for a program
    ``"node"``. Why it does so is not known, so this excuses nothing."""
    completed: frozenset[str] = frozenset()
    """Those whose name it completes where it opens libraries: ``f"libdemo_{x}.so"``."""
    guided: frozenset[str] = frozenset()
    """Programs named where it sets LD_LIBRARY_PATH or DYLD_LIBRARY_PATH."""
    modules: frozenset[str] = frozenset()
    """Names under which it imports files by their paths: the first argument of
    ``spec_from_file_location("_demo", path)``. Such a file may have any name."""
    unread: str = ""  # why not all of its code was read; "" where it was


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOpenings:
    """The objects that the package's own code opens by their paths."""

    demanded: frozenset[str] = frozenset()  # without which the import fails
    tried: frozenset[str] = frozenset()  # without which it goes on
    later: frozenset[str] = frozenset()  # that no import opens, as far as names of functions tell
    unfollowed: frozenset[str] = frozenset()
    """Those named by code that opens libraries and was not followed to its end."""
