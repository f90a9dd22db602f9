"""Finds what the Python that a tag names exports, and what its stable ABI is."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from binary_checks.model.system import Interpreter
from binary_checks.systems.committed import read_committed


def interpreter(
    version: tuple[int, int],
    *,
    free_threaded: bool,
    system: str = "linux",
    architecture: str = "x86_64",
) -> Interpreter | None:
    """Find the exports of a CPython; None without data, as for free-threaded builds.

    They are names of the C API's shape (``Py*``, ``_Py*``), public and private; a ``PyInit_*`` is
    not among them, since builds differ in the modules they compile in. macOS gets those of Linux.
    On Windows there are also ``libraries``, the DLLs beside python.exe, for which alone the
    architecture matters; free-threaded builds have them too, with exports that are empty because
    nobody knows them.
    """
    if system == "windows":
        return _find_windows_interpreter(version, free_threaded, architecture)
    return None if free_threaded else _read_interpreters().get(version)


def interpreter_versions() -> tuple[tuple[int, int], ...]:
    """List the versions of CPython that there is data about, oldest first."""
    return tuple(sorted(_read_interpreters()))


@functools.cache
def stable_abi() -> Mapping[str, tuple[int, int]]:
    """List each symbol of CPython's stable ABI (abi3), with the Python that added it."""
    added = read_committed("stable_abi.json")["added"]
    return {
        name: _parse_version(version) for version, names in added.items() for name in names.split()
    }


@functools.cache
def _find_windows_interpreter(
    version: tuple[int, int], free_threaded: bool, architecture: str
) -> Interpreter | None:
    from binary_checks.systems.interpreters_windows import windows_interpreter  # for few packages

    return windows_interpreter(
        version,
        free_threaded=free_threaded,
        architecture=architecture,
        on_linux={known: found.exports for known, found in _read_interpreters().items()},
        stable=stable_abi(),
    )


@functools.cache
def _read_interpreters() -> Mapping[tuple[int, int], Interpreter]:
    content = read_committed("interpreters.json.gz")
    exports: dict[str, set[str]] = {version: set() for version in content["versions"]}
    for versions, names in content["groups"]:
        found = names.split()
        for version in versions.split():
            exports[version].update(found)
    return {
        _parse_version(version): Interpreter(
            implementation="cpython",
            version=_parse_version(version),
            free_threaded=False,
            exports=frozenset(found),
        )
        for version, found in exports.items()
    }


def _parse_version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
