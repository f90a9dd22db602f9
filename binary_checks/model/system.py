"""The system that a package claims to run on: allowed versions, and exports of its libraries."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile

# Versions made of numbers and dots, as those of glibc, CUDA and drivers.

_MOST_DIGITS = 9  # no real version has longer parts, but texts in packages may


@functools.lru_cache(maxsize=4096)
def read_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 14) for 2.14, () for PRIVATE.

    As tuples, 2.14 sorts after 2.2.5. The result for 1.19.0rc1 is (1, 19).
    """
    return tuple(map(int, takewhile(_is_number, version.split("."))))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= _MOST_DIGITS


# The version node of symbols that glibc's parts use among themselves, different in each release.
GLIBC_PRIVATE = "GLIBC_PRIVATE"

_NUMERIC = r"(?a)\d{1,9}(?:\.\d{1,9})*"


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The promise of a platform tag: a minimum version of libc, and a set of system libraries.

    PEP 600 and PEP 656 define the tags; auditwheel's policies list the libraries and versions.
    """

    name: str
    """The tag without its architecture, in its modern spelling: ``manylinux_2_28``."""
    architecture: str
    """As in platform tags: ``x86_64``, ``aarch64``, ``i686``, ``armv7l``, ..."""
    libc: str
    """``glibc`` or ``musl``."""
    minimum: tuple[int, int]
    """The oldest version of the libc that a user may have."""
    libraries: frozenset[str]
    """Sonames that a package may need from the system, including the dynamic loader's."""
    versions: Mapping[str, frozenset[str]]
    """Allowed symbol versions by prefix: ``{"GLIBC": {"2.2.5", "2.3"}, ...}``."""
    forbidden_symbols: Mapping[str, frozenset[str]]
    """Soname -> symbols that the library has on some systems only."""
    aliases: tuple[str, ...]
    """Older names of the tag: ``("manylinux2014",)``."""

    def allows(self, version_node: str) -> bool | None:
        """Return whether a package may need ``version_node``; None if the policy does not cover it.

        ``GLIBC_2.29``, ``GLIBCXX_3.4.30`` and similar names are compared as numbers with the newest
        listed version, since the lists have gaps (an architecture's libc defines no node for a
        release without new symbols). Names without an order (``CXXABI_TM_1``,
        ``GLIBC_ABI_DT_RELR``) are allowed if listed. ``GLIBC_PRIVATE`` is glibc's own and never
        allowed.
        """
        if version_node == GLIBC_PRIVATE:
            return False
        prefix, _, version = version_node.partition("_")
        listed = self.versions.get(prefix)
        if listed is None:
            return None
        numbers = read_numbers(version) if re.fullmatch(_NUMERIC, version) else ()
        return numbers <= _newest(listed) if numbers else version in listed


@dataclass(frozen=True, kw_only=True, slots=True)
class LowestPolicy:
    """The first policy that allows the versions that all objects of a package need of the system.

    It is None if no policy allows them all.
    """

    policy: Policy | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemLibrary:
    """The exports of a library of the target system, joined over all releases in the data.

    The exports show whether a symbol may come from the library. :meth:`Policy.allows` decides by
    the version node whether the user's release is new enough.
    """

    soname: str
    symbols: Mapping[str, frozenset[str]]
    """Symbol name -> the version nodes that export it; ``""`` for an unversioned export."""
    versions: frozenset[str]
    """Every version node that the library defines, including those without symbols."""
    # symbol name -> the library that had it before the release of the newest of its nodes
    moved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """The symbols that the Python of a tag exports to extension modules."""

    implementation: str
    """``cpython``, ``pypy`` or ``graalpy``."""
    version: tuple[int, int]
    free_threaded: bool
    exports: frozenset[str]
    libraries: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """On Windows, the DLLs next to python.exe, in lower case, and their exports."""
    complete: bool = True
    """False if there is no data for the version: further names of its C API may be exported."""
    unsure: frozenset[str] = frozenset()
    """Names of which no source says whether they are exported; all others are not."""
    unimplemented: frozenset[str] = frozenset()
    """Exported functions that end the process when they are called."""
    release: str = ""
    """The version of the implementation itself, if its ABI depends on it: "25.0" of GraalPy."""


SPECIAL_BUILDS: Mapping[str, str] = {
    **dict.fromkeys(("PyFPE_counter", "PyFPE_dummy", "PyFPE_jbuf"), "--with-fpectl"),
    **dict.fromkeys(("_Py_NegativeRefcount", "_Py_RefTotal"), "--with-pydebug"),
    **dict.fromkeys(("PyModule_Create2TraceRefs", "Py_InitModule4TraceRefs"), "--with-trace-refs"),
}
"""Names of the C API that only a Python configured with this option exports.

From ``Include/pyfpe.h`` of CPython 3.6 and ``Include/object.h`` and ``Include/modsupport.h``.
"""


@functools.cache
def _newest(versions: frozenset[str]) -> tuple[int, ...]:
    """Return the newest numeric version; () if there is none, which sorts first."""
    return max(map(read_numbers, versions), default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetSystem:
    """The user's machine as promised by the package's tags; independent of this host."""

    name: str  # name in reports: "manylinux_2_28_x86_64, CPython 3.11"
    system: str = "linux"  # "macos", "ios", "windows", "android", "emscripten"
    libc: str = "glibc"  # or "musl", "bionic"; "" if the system has only one
    architectures: tuple[str, ...] = ("x86_64",)  # universal2 has two, every other tag one
    # the oldest macOS that the tags claim; the API level of Android, (24, 0); the ABI of
    # Emscripten, (2026, 0)
    minimum_os: tuple[int, int] | None = None
    policy: Policy | None = None  # of the lowest platform tag; None if the tag promises nothing
    # all policies for the same libc and architecture, lowest first
    policies: tuple[Policy, ...] = ()
    libraries: frozenset[str] = (
        frozenset()
        # libraries that the system provides: sonames, install names, DLL names in lower case
    )
    partly: Mapping[str, str] = field(default_factory=dict)
    """Library -> the promised systems that have it, if not all do: "macOS 13 and later"."""
    interpreter: Interpreter | None = None  # None: not a single CPython, or none in the data
    interpreters: Mapping[tuple[tuple[int, int], bool], Interpreter] = field(default_factory=dict)
    """All CPythons for that system in the data, by version and whether they are free-threaded."""
    library_data: Mapping[str, SystemLibrary] = field(
        default_factory=dict
    )  # exports of these libraries, if known
    # directories that, according to the profile, the package's code adds to the DLL search;
    # relative to site-packages
    dll_directories: tuple[str, ...] = ()
    # platform tags of the package that this system does not represent
    unjudged: tuple[str, ...] = ()
