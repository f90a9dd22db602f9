"""Knows the DLLs of the Visual C++ runtime by name: who has them, and of which toolset they are."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from binary_checks.model import PeFile
from binary_checks.model.packages import PythonClaim

_DEBUG = (
    r"ucrtbased\.dll|msvcrtd\.dll|vcruntime\d+(?:_1|_threads)?d\.dll|libomp140d\.\w+\.dll|"
    r"(?:msvc[pr]|vcomp|concrt|vccorlib|vcamp|mfcm?)\d+(?:_[12])?u?d(?:_[a-z_]+)?\.dll"
)
# Of the older ones only these numbers: Windows itself has msvcp60.dll, mfc42u.dll and the like.
_REDISTRIBUTABLE = (
    r"msvcp140(?:_1|_2|_atomic_wait|_codecvt_ids)?\.dll|vcruntime140_threads\.dll|"
    r"(?:concrt|vccorlib|vcamp|vcomp)140\.dll|libomp140\.\w+\.dll|"
    r"(?:msvc[pr]|vcomp|mfcm?)(?:80|90|100|110|120)u?\.dll|mfcm?140u?\.dll"
)
_RUNTIMES = (((2, 6), "msvcr71.dll"), ((3, 3), "msvcr90.dll"), ((3, 5), "msvcr100.dll"))
"""The C runtime of CPythons that are older than a version."""
_HASH = r"-[0-9a-f]{32}(?=\.dll$)"
_MICROSOFT = 14
"""The major version of Microsoft's linkers since 2015; MinGW's have 2."""


@functools.lru_cache(maxsize=4096)  # the objects of a package need the same few
def is_debug_runtime(name: str) -> bool:
    """Whether it is a DLL that comes with Visual Studio, and with nothing else."""
    return re.fullmatch(_DEBUG, name.lower()) is not None


@functools.lru_cache(maxsize=4096)
def is_redistributable(name: str) -> bool:
    """Whether it is a DLL of the runtime that CPython does not bring.

    CPython for Windows has vcruntime140.dll and vcruntime140_1.dll beside python.exe.
    """
    return re.fullmatch(_REDISTRIBUTABLE, name.lower()) is not None


def is_beside_python(name: str) -> bool:
    """Whether it is a DLL of the runtime that CPython has for its own process, and no other's."""
    return name.lower() in {"vcruntime140.dll", "vcruntime140_1.dll"}


def comes_with_python(name: str, pythons: Collection[PythonClaim]) -> bool:
    """Whether it is the C runtime that every claimed CPython was linked with, and installs.

    Before 3.5 that was the runtime of the compiler of that version: extension modules had to have
    the same one (https://wiki.python.org/moin/WindowsCompilers).
    """
    name = name.lower()
    return bool(pythons) and all(
        each.implementation == "cpython" and each.version and name == _find_runtime(each.version)
        for each in pythons
    )


def _find_runtime(python: tuple[int, int]) -> str:
    found = (name for before, name in _RUNTIMES if python < before)
    return next(found, "")


def may_be_anybodys(name: str) -> bool:
    """Whether it may be a DLL of some project, and is none of Microsoft's runtime or system."""
    systems = ("api-ms-", "ext-ms-", "vcruntime140")
    return not (is_debug_runtime(name) or is_redistributable(name)) and not (
        name.lower().startswith(systems)
    )


def original_name(name: str) -> str:
    """The name without the hash that delvewheel puts into it, in lower case."""
    return re.sub(_HASH, "", name.lower())


def toolset_of(library: PeFile) -> tuple[int, int] | None:
    """The version of Microsoft's toolset that linked it; None where it was none of theirs.

    The linker that the runtime itself was made with is at times one version behind: 14.50 made
    msvcp140.dll 14.51.36247. LLD says 14.0 of itself.
    """
    major, _, minor = library.linker_version.partition(".")
    if major != str(_MICROSOFT) or not minor.isdecimal() or minor == "0":
        return None
    return _MICROSOFT, int(minor)
