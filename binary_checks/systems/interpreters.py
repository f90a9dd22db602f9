"""Finds what the Python that a tag names exports, and what its stable ABI is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from binary_checks.model.system import Interpreter
from binary_checks.systems.committed import Version, names_of, parse_version, read_committed


def interpreter(
    version: Version,
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
    return None if free_threaded else _find_interpreter(version)


@functools.cache
def interpreter_versions() -> tuple[Version, ...]:
    """List the versions of CPython that there is data about, oldest first."""
    return tuple(sorted(map(parse_version, _content()["versions"])))


@functools.cache
def stable_abi() -> Mapping[str, Version]:
    """List each symbol of CPython's stable ABI (abi3), with the Python that added it."""
    added = read_committed("stable_abi.json")["added"]
    since: dict[str, Version] = {}
    for version, names in added.items():
        since.update(dict.fromkeys(names.split(), parse_version(version)))
    return since


@functools.cache
def _find_windows_interpreter(
    version: Version, free_threaded: bool, architecture: str
) -> Interpreter | None:
    from binary_checks.systems.interpreters_windows import windows_interpreter  # for few packages

    if version not in interpreter_versions():
        return None
    return windows_interpreter(
        version,
        free_threaded=free_threaded,
        architecture=architecture,
        on_linux=_find_exports,
        stable=stable_abi,
    )


@functools.cache
def _find_interpreter(version: Version) -> Interpreter | None:
    if version not in interpreter_versions():
        return None
    return Interpreter(
        implementation="cpython",
        version=version,
        free_threaded=False,
        exports=_find_exports(version),
    )


def _find_exports(version: Version) -> frozenset[str]:
    return names_of(version, _content()["groups"])


@functools.cache
def _content() -> Any:
    return read_committed("interpreters.json.gz")
