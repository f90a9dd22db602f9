"""Finds which DLLs and API sets a clean Windows 10 or 11 has, and what they export.

Names are those that delvewheel found on installation discs of Windows 10 and 11 (for x86 and x86_64
also of 7 to 8.1). The Visual C++ runtime (msvcp140.dll, vcomp140.dll, mfc140u.dll) and what comes
with drivers (nvcuda.dll, vulkan-1.dll, OpenCL.dll) are not among them; ucrtbase.dll is. Exports
are those of mingw-w64, wine and Microsoft's documentation together, up to Windows 11's newest: they
answer "could this function come from there?", not "does the user's Windows have it?".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from binary_checks.model.system import SystemLibrary
from binary_checks.systems.committed import list_committed, read_committed

_API_SET = re.compile(r"(?:api|ext)-ms-[a-z0-9-]+-l\d+-\d+-\d+(?:\.dll)?")
_C_RUNTIME = "api-ms-win-crt-"
_UNVERSIONED = frozenset({""})
_ARCHITECTURES = ("x86_64", "i686", "aarch64")


@functools.cache
def windows_libraries(architecture: str) -> frozenset[str]:
    """List what lies in System32 for processes of an architecture, in lower case.

    None of it for an architecture that is not x86_64, i686 or aarch64. API sets are no files.
    """
    groups = _content()["libraries"]
    found = (names.split(" ") for where, names in groups if architecture in where.split(" "))
    return frozenset().union(*found)


@functools.cache
def windows_libraries_partly(architecture: str) -> Mapping[str, str]:
    """List DLLs that only some of Windows 10 and 11 have, and which: "Windows 10 1903 and later".

    They are not in :func:`windows_libraries`.
    """
    found = _content()["partly"].items()
    return {name: which for name, (where, which) in found if architecture in where.split(" ")}


def is_api_set(name: str) -> bool:
    """Tell a contract's name, which the loader's schema turns into a DLL before any search."""
    return _API_SET.fullmatch(name.lower()) is not None


@functools.cache
def api_sets() -> frozenset[str]:
    """List known contracts without their last number: ``api-ms-win-core-path-l1-1``."""
    return frozenset(_content()["api_sets"].split(" "))


def windows_library(name: str, architecture: str) -> SystemLibrary | None:
    """Find what a DLL of the system exports, by name and, as ``#115``, by number.

    None where the data are not known to be complete, as most DLLs' and all API sets' but those of
    the C runtime, which are ucrtbase.dll. Of numbers all up to the highest known are there.
    """
    lowered = name.lower()
    is_runtime = is_api_set(lowered) and lowered.startswith(_C_RUNTIME)
    table = "ucrtbase.dll" if is_runtime else lowered
    # The name comes from a package: it is looked up in a list before it becomes part of a path.
    if architecture not in _ARCHITECTURES or f"{table}.json.gz" not in _list_tables():
        return None
    symbols = _read_symbols(table, architecture)
    return SystemLibrary(soname=lowered, symbols=symbols, versions=frozenset())


@functools.cache
def _list_tables() -> frozenset[str]:
    return list_committed("libraries", "windows")


@functools.cache
def _read_symbols(table: str, architecture: str) -> Mapping[str, frozenset[str]]:
    content = read_committed("libraries", "windows", f"{table}.json.gz")
    ordinals = range(1, content["highest_ordinal"] + 1)
    symbols = {f"#{ordinal}": _UNVERSIONED for ordinal in ordinals}
    for architectures, names in content["groups"]:
        if architecture in architectures.split(" "):
            symbols.update(dict.fromkeys(names.split(" "), _UNVERSIONED))
    return symbols


@functools.cache
def _content() -> Any:
    return read_committed("windows.json.gz")
