"""The Python of a tag, its exports, and its stable ABI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from binary_checks.model import PYTHON_3, SPECIAL_BUILDS, Interpreter, PythonClaim, is_python_2
from binary_checks.systems.libraries import Version, names_of, parse_version, read_committed
from binary_checks.systems.other_pythons import find_other, format_other

# The DLLs next to python.exe on Windows, and their exports.
#
# The data for 3.8 to 3.13 come from python.org's builds for x86_64; a version has the same exports
# on all architectures. Exports of newer versions are derived: since 3.9 a Python's DLL exports the
# functions of its Linux build and some twenty further functions, and since 3.10 python3.dll exports
# the stable ABI.

_UNKNOWN: frozenset[str] = frozenset()
_NOT_ON_WINDOWS = frozenset(
    {"PyOS_AfterFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent", "PyOS_BeforeFork"}
)
"""Functions of the stable ABI that python3.dll lacks, because Windows has no fork."""
_FIRST_FREE_THREADED = (3, 13)
_NOT_IN_32_BITS = "vcruntime140_1.dll"
"""A DLL that unwinds the stack by tables, which x86 does not have: no 32-bit Python contains it."""


def interpreter_library(version: Version | None, *, free_threaded: bool) -> str:
    """Return the DLL whose functions an extension module uses: ``python313t.dll``.

    If ``version`` is None, return the DLL of the stable ABI: ``python3.dll``, or ``python3t.dll``
    for abi3t. Debug builds (``python313_d.dll``) are left out, because only developers of CPython
    use them.
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
    """Return a CPython on Windows with the DLLs next to python.exe; None if it was never released.

    ``on_linux`` returns the exports of a Linux build, ``stable`` the stable ABI; both are needed
    for versions newer than the data. The exports of python3t.dll are not known, and are an empty
    set.
    """
    if free_threaded and version < _FIRST_FREE_THREADED:
        return None
    own = _own_exports(version, on_linux)
    shared = _UNKNOWN if free_threaded else _stable_exports(version, stable)
    if free_threaded:
        own = _without_gil(version, own)
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
    groups = _windows_content()["python3x.dll"]
    newest = _find_newest(groups)
    known = names_of(min(version, newest), groups)
    return known if version <= newest else on_linux(version) | (known - on_linux(newest))


def _stable_exports(
    version: Version, stable: Callable[[], Mapping[str, Version]]
) -> frozenset[str]:
    groups = _windows_content()["python3.dll"]
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
    """Return the DLLs of the C runtime that Python installs, with their exports.

    The exports are the same in 14.28, shipped with 3.8.10, and in 14.51.
    """
    found = _windows_content()["runtimes"].items()
    return {
        name: frozenset(names.split())
        for name, names in found
        if not (architecture == "i686" and name == _NOT_IN_32_BITS)
    }


@functools.cache
def _windows_content() -> Any:
    return read_committed("interpreters_windows.json.gz")


# The exports of a tag's Python, and its stable ABI.


def interpreter(
    version: Version,
    *,
    free_threaded: bool,
    system: str = "linux",
    architecture: str = "x86_64",
) -> Interpreter | None:
    """Return a CPython with its exports, or None if there is no data for it.

    Exports are the names of the C API (``Py*``, ``_Py*``), public and private, without
    ``PyInit_*``, because builds contain different modules. macOS uses the data of Linux. On Windows
    ``libraries`` are the DLLs next to python.exe, which depend on the architecture.
    """
    if system == "windows":
        return _find_windows_interpreter(version, free_threaded, architecture)
    return _find_interpreter(version, free_threaded)


@functools.cache
def interpreter_versions() -> tuple[Version, ...]:
    """Return the versions of CPython in the data, oldest first."""
    return tuple(sorted(map(parse_version, _content()["versions"])))


@functools.cache
def stable_abi() -> Mapping[str, Version]:
    """Map each symbol of CPython's stable ABI (abi3) to the Python that added it."""
    added = read_committed("stable_abi.json")["added"]
    since: dict[str, Version] = {}
    for version, names in added.items():
        since.update(dict.fromkeys(names.split(), parse_version(version)))
    return since


@functools.cache
def _find_windows_interpreter(
    version: Version, free_threaded: bool, architecture: str
) -> Interpreter | None:
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
def _find_interpreter(version: Version, free_threaded: bool) -> Interpreter | None:
    if version not in interpreter_versions():
        return None
    if free_threaded and version < _FIRST_FREE_THREADED:
        return None
    exports = _find_exports(version)
    return Interpreter(
        implementation="cpython",
        version=version,
        free_threaded=free_threaded,
        exports=_without_gil(version, exports) if free_threaded else exports,
    )


def _find_exports(version: Version) -> frozenset[str]:
    return names_of(version, _content()["groups"])


def _without_gil(version: Version, exports: frozenset[str]) -> frozenset[str]:
    """Return the exports of a free-threaded build, from those of the build with a GIL."""
    return exports - _list_changed("lacking", version) | free_threaded_symbols(version)


@functools.cache
def free_threaded_symbols(version: Version | None = None) -> frozenset[str]:
    """Return the names that only free-threaded builds export; None: those of any version."""
    versions = interpreter_versions() if version is None else (version,)
    return _UNKNOWN.union(*(_list_changed("added", each) for each in versions))


def _list_changed(kind: str, version: Version) -> frozenset[str]:
    changed = read_committed("free_threaded.json")[kind]
    return frozenset(changed.get("{}.{}".format(*version), "").split())


@functools.cache
def _content() -> Any:
    return read_committed("interpreters.json.gz")


# The Python that a package claims to run on.


def interpreter_of(
    pythons: Iterable[PythonClaim], system: str = "linux", architecture: str = "x86_64"
) -> Interpreter | None:
    """Return the oldest claimed CPython for which there are data, else a PyPy or GraalPy.

    ``py3-none`` is bound to no Python: such a library can at most use the stable ABI, which the
    newest Python has completely. A Python 3 older than the data is replaced by the oldest in the
    data. That one has hardly a symbol more in its C API, but may lack some that were removed;
    another check judges the limits of abi3. Python 2 has a different C API, for which there are no
    data.
    """
    claims = [each for each in pythons if each.implementation in {"cpython", ""}]
    claims = [each for each in claims if not is_python_2(each)]
    versions = [
        (
            each.version,
            each.free_threaded or each.abi == "abi3t",
            each.abi.startswith("abi3"),
        )
        for each in claims
        if each.implementation and each.version
    ]
    if versions:
        version, free_threaded, stable = min(versions)
    elif claims:
        version, free_threaded, stable = interpreter_versions()[-1], False, True
    elif system == "windows":
        return None  # which libraries PyPy and GraalPy contain there is not known
    else:
        return find_other(pythons)
    return _find_oldest(
        version,
        free_threaded=free_threaded,
        stable=stable,
        system=system,
        architecture=architecture,
    )


_FIRST_WITHOUT_FPECTL = (3, 7)


def _find_oldest(
    version: Version, *, free_threaded: bool, stable: bool, system: str, architecture: str
) -> Interpreter | None:
    """Return the CPython of a version, or the oldest in the data if that is newer.

    Modules that use only the stable ABI need nothing else. Other modules may need names that were
    removed: falcon's modules for 3.7 need _PyCFunction_FastCallKeywords.
    """
    oldest = interpreter_versions()[0]
    found = interpreter(
        max(version, oldest),
        free_threaded=free_threaded,
        system=system,
        architecture=architecture,
    )
    if found is None or stable or version >= oldest:
        return found
    # 3.7 and 3.8 export PyFPE_jbuf whatever their options, for modules built before (bpo-29137)
    plain = found.exports
    if version < _FIRST_WITHOUT_FPECTL:
        plain = plain.difference(SPECIAL_BUILDS)
    return replace(found, complete=False, exports=plain)


class Interpreters(Mapping[tuple[tuple[int, int], bool], Interpreter]):
    """The CPythons of a system, each read on first access.

    A Python 3 older than the data is replaced by the oldest in the data, as in `interpreter_of`.
    """

    def __init__(self, system: str = "linux", architecture: str = "x86_64") -> None:
        self._system, self._architecture = system, architecture

    def __getitem__(self, key: tuple[tuple[int, int], bool]) -> Interpreter:
        version, free_threaded = key
        if version < PYTHON_3:
            raise KeyError(key)
        found = _find_oldest(
            version,
            free_threaded=free_threaded,
            stable=False,
            system=self._system,
            architecture=self._architecture,
        )
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[tuple[tuple[int, int], bool]]:
        keys = ((version, without) for version in interpreter_versions() for without in (0, 1))
        return (
            (version, bool(without))
            for version, without in keys
            if (version, bool(without)) in self
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def format_interpreter(python: Interpreter | None) -> str:
    """Format the name of an interpreter: "CPython 3.13t"."""
    if python is None:
        return ""
    if python.implementation != "cpython":
        return format_other(python)
    suffix = "t" if python.free_threaded else ""
    return "CPython {}.{}{}".format(*python.version, suffix)
