"""Finds the DLLs that lie beside python.exe on Windows, and what they export.

Of 3.8 to 3.13 there are data of python.org's builds for x86_64; one version exports the same on all
architectures. Newer ones are put together: since 3.9 a Python's DLL exports what its Linux build
does and some twenty functions of Windows's own, and since 3.10 python3.dll is the stable ABI.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from binary_checks.model.system import Interpreter
from binary_checks.systems.committed import Version, names_of, parse_version, read_committed

_UNKNOWN: frozenset[str] = frozenset()
_NOT_ON_WINDOWS = frozenset(
    {"PyOS_AfterFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent", "PyOS_BeforeFork"}
)
"""All of the stable ABI that python3.dll lacks: there is no fork."""
_FIRST_FREE_THREADED = (3, 13)
_NOT_IN_32_BITS = "vcruntime140_1.dll"
"""Unwinds the stack by tables, which x86 does not have: no 32-bit Python brings it."""


def interpreter_library(version: Version | None, *, free_threaded: bool) -> str:
    """Name the DLL whose functions an extension module uses: ``python313t.dll``.

    Without a version that of the stable ABI: ``python3.dll``, for abi3t ``python3t.dll``. Debug
    builds (``python313_d.dll``) are on nobody's machine but a developer's of CPython.
    """
    major, minor = version or (3, "")
    return f"python{major}{minor}{'t' if free_threaded else ''}.dll"


def windows_interpreter(
    version: Version,
    *,
    free_threaded: bool,
    architecture: str,
    on_linux: Callable[[Version], frozenset[str]],
    stable: Callable[[], Mapping[str, Version]],
) -> Interpreter | None:
    """Find what a CPython on Windows has beside its python.exe; None where there was no such one.

    ``on_linux`` gives the exports of Linux's builds, ``stable`` the stable ABI; newer versions than
    there are data of need them. Without GIL the names of the DLLs follow from the version, and
    their exports are unknown: an empty set.
    """
    if free_threaded and version < _FIRST_FREE_THREADED:
        return None
    own, shared = _UNKNOWN, _UNKNOWN
    if not free_threaded:
        own = _own_exports(version, on_linux)
        shared = _stable_exports(version, stable)
    libraries = {
        interpreter_library(version, free_threaded=free_threaded): own,
        interpreter_library(None, free_threaded=free_threaded): shared,
        **_runtimes(architecture),
    }
    return Interpreter(
        implementation="cpython",
        version=version,
        free_threaded=free_threaded,
        exports=own,
        libraries=libraries,
    )


def _own_exports(version: Version, on_linux: Callable[[Version], frozenset[str]]) -> frozenset[str]:
    groups = _content()["python3x.dll"]
    newest = _find_newest(groups)
    known = names_of(min(version, newest), groups)
    return known if version <= newest else on_linux(version) | (known - on_linux(newest))


def _stable_exports(
    version: Version, stable: Callable[[], Mapping[str, Version]]
) -> frozenset[str]:
    groups = _content()["python3.dll"]
    newest = _find_newest(groups)
    known = names_of(min(version, newest), groups)
    if version <= newest:
        return known
    added = frozenset(name for name, since in stable().items() if since <= version)
    return known | (added - _NOT_ON_WINDOWS)


def _find_newest(groups: Iterable[tuple[str, str]]) -> Version:
    return max(parse_version(version) for versions, _ in groups for version in versions.split())


@functools.cache
def _runtimes(architecture: str) -> Mapping[str, frozenset[str]]:
    """The C runtime that Python brings: the same functions in 14.28, with 3.8.10, and in 14.51."""
    found = _content()["runtimes"].items()
    return {
        name: frozenset(names.split())
        for name, names in found
        if not (architecture == "i686" and name == _NOT_IN_32_BITS)
    }


@functools.cache
def _content() -> Any:
    return read_committed("interpreters_windows.json.gz")
