"""Functions of Windows that not every promised Windows has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from binary_checks.model import PeFile
from binary_checks.profile import read_toml

_TABLE = Path(__file__).with_name("windows_functions.toml")


def find_newer_functions(library: PeFile) -> Iterator[tuple[str, str, str]]:
    """Yield (function, library, first Windows with it) for imports that Windows 10 lacks.

    Functions of libraries that are loaded at the first call are left out: code may ask first which
    Windows it runs on.
    """
    known = _read_functions()
    names = library.imports.among({name for _, name in known})
    delayed = {need.name.lower() for need in library.needed if need.delayed}
    for name in sorted(names):
        for symbol in library.imports.find(name):
            since = known.get((symbol.library.lower(), name))
            if since is not None and symbol.library.lower() not in delayed:
                yield name, symbol.library, since


@cache
def _read_functions() -> dict[tuple[str, str], str]:
    """Return the first Windows of each function, by library and name."""
    return {
        (library, name): row["since"]
        for row in read_toml(_TABLE, _TABLE.name)["functions"]
        for library in row["libraries"]
        for name in row["names"]
    }
