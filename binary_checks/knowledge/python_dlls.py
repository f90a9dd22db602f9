"""Tells which interpreter a DLL name stands for, and which of them a module may need."""

from __future__ import annotations

import functools
import re

from binary_checks.model import PeFile, PythonClaim
from binary_checks.model.python_modules import ExtensionName, is_extension, parse_extension_name

_PYTHON = r"(?:lib)?python[23]\.?\d*t?(?:_d)?\.dll|libpypy\d\.\d+-c\.dll|python-native\.dll"
_STABLE = ("python3.dll", "python3t.dll")


@functools.lru_cache(maxsize=4096)  # the objects of a package need the same few
def is_python_dll(name: str) -> bool:
    """Whether a needed name is an interpreter's: also a debug build's, MSYS2's, GraalPy's."""
    return re.fullmatch(_PYTHON, name.lower()) is not None


def is_of_one_version(name: str) -> bool:
    """Whether it is the DLL of one Python alone, and not that of the stable ABI."""
    return is_python_dll(name) and name.lower() not in _STABLE


def are_for_any_python(pythons: tuple[PythonClaim, ...]) -> bool:
    """Whether every Python of a major version is claimed (``py3-none``)."""
    return bool(pythons) and all(not each.implementation for each in pythons)


def acceptable_dlls(library: PeFile, pythons: tuple[PythonClaim, ...]) -> tuple[str, ...]:
    """The interpreter DLLs that an object may need; () where nothing is promised.

    The file name's own word counts more than the claims: a package may hold modules for several
    Pythons. One for every Python 3 promises something of extension modules only.
    """
    name = parse_extension_name(library.path)
    if name is not None and name.version is not None:
        return _of_name(name)
    if are_for_any_python(pythons):
        return ("python3.dll",) if is_extension(library) else ()
    accepted = [_of_claim(each) for each in pythons]
    return tuple(dict.fromkeys(sum(accepted, ()))) if all(accepted) else ()


def _of_name(name: ExtensionName) -> tuple[str, ...]:
    assert name.version is not None
    major, minor = map(str, name.version)
    if name.implementation == "cpython":
        return _of_cpython(major, minor, "t" if name.free_threaded else "")
    return (f"libpypy{major}.{minor}-c.dll",) if name.implementation == "pypy" else ()


def _of_claim(claim: PythonClaim) -> tuple[str, ...]:
    if claim.abi == "abi3":
        return ("python3.dll",)
    if claim.abi == "abi3t":
        return ("python3t.dll",)
    if claim.version is None:
        return ()
    major, minor = map(str, claim.version)
    if claim.implementation == "pypy":
        return (f"libpypy{major}.{minor}-c.dll",)
    if claim.implementation == "cpython":
        return _of_cpython(major, minor, "t" if claim.free_threaded else "")
    return ()


def _of_cpython(major: str, minor: str, flags: str) -> tuple[str, ...]:
    """One version has its own DLL, and the one of the stable ABI that stands for it."""
    return f"python{major}{minor}{flags}.dll", f"python{major}{flags}.dll"
