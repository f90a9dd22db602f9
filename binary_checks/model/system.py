"""The system that a package claims: what it allows, and what its libraries export."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile

# Versions that are numbers between dots, as those of glibc, CUDA and drivers are.

_MOST_DIGITS = 9  # no version has more in a part; texts of packages may


@functools.lru_cache(maxsize=4096)
def read_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (2, 14) for 2.14, () for PRIVATE.

    So 2.14 comes after 2.2.5, and 1.19.0rc1 is 1.19.
    """
    return tuple(map(int, takewhile(_is_number, version.split("."))))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= _MOST_DIGITS


_NUMERIC = r"(?a)\d{1,9}(?:\.\d{1,9})*"


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a platform tag promises its user: this libc or newer, and these libraries beside it.

    PEP 600 and PEP 656 define the tags; the libraries and versions are those auditwheel holds
    wheels to.
    """

    name: str
    """The tag without its architecture, in its modern spelling: ``manylinux_2_28``."""
    architecture: str
    """As platform tags spell it: ``x86_64``, ``aarch64``, ``i686``, ``armv7l``, ..."""
    libc: str
    """``glibc`` or ``musl``."""
    minimum: tuple[int, int]
    """The oldest version of that libc a user may have."""
    libraries: frozenset[str]
    """Sonames a package may need from the system, the dynamic loader's own among them."""
    versions: Mapping[str, frozenset[str]] = field(hash=False)
    """By prefix, the symbol versions that may be needed: ``{"GLIBC": {"2.2.5", "2.3"}, ...}``."""
    forbidden_symbols: Mapping[str, frozenset[str]] = field(hash=False)
    """By soname, symbols that some systems' build of the library has and others' lacks."""
    aliases: tuple[str, ...]
    """Older spellings of the name: ``("manylinux2014",)``."""

    def allows(self, version_node: str) -> bool | None:
        """Say whether a package may need ``version_node``; None where it is not governed.

        ``GLIBC_2.29``, ``GLIBCXX_3.4.30`` and the like are compared as numbers with the newest
        version the policy lists, since its lists have gaps (an architecture's libc defines no
        node for releases that brought it no new symbol). Names without an order
        (``CXXABI_TM_1``, ``GLIBC_ABI_DT_RELR``) are allowed where they are listed.
        ``GLIBC_PRIVATE`` is glibc's own and never allowed.
        """
        if version_node == "GLIBC_PRIVATE":
            return False
        prefix, _, version = version_node.partition("_")
        listed = self.versions.get(prefix)
        if listed is None:
            return None
        numbers = read_numbers(version) if re.fullmatch(_NUMERIC, version) else ()
        return numbers <= _newest(listed) if numbers else version in listed


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemLibrary:
    """What a library of the target system exports, over all releases that were looked at.

    It answers "could this symbol come from there?". That the user's release is new enough to
    have it is the policy's matter: :meth:`Policy.allows` on the version node.
    """

    soname: str
    symbols: Mapping[str, frozenset[str]] = field(hash=False)
    """Name to the version nodes it is exported with; ``""`` where it carries none."""
    versions: frozenset[str]
    """Every version node the library defines, also those without a symbol."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """What the Python that a tag names exports to its extension modules."""

    implementation: str
    """``cpython``."""
    version: tuple[int, int]
    free_threaded: bool
    exports: frozenset[str]
    libraries: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """On Windows the DLLs that lie beside python.exe, in lower case, and what each exports."""


@functools.cache
def _newest(versions: frozenset[str]) -> tuple[int, ...]:
    """Pick the newest numeric version; empty, below all others, where there is none."""
    return max(map(read_numbers, versions), default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetSystem:
    """The user's machine as the package's tags promise it: data, never this host."""

    name: str  # "manylinux_2_28_x86_64, CPython 3.11": how reports call it
    system: str = "linux"  # or "macos" or "windows", as the loaders differ
    libc: str = "glibc"  # or "musl"; "" where the system has but one
    architectures: tuple[str, ...] = ("x86_64",)  # universal2 has two, every other tag one
    minimum_os: tuple[int, int] | None = None  # the oldest macOS that the tags claim
    policy: Policy | None = (
        None  # of the lowest platform tag claimed; None where the tag promises nothing
    )
    policies: tuple[Policy, ...] = ()  # all of that libc and architecture, lowest first
    libraries: frozenset[str] = (
        frozenset()
    )  # that the system provides: sonames, install names, DLL names in lower case
    partly: Mapping[str, str] = field(default_factory=dict)
    """Libraries that only some of the promised systems have, and which: "macOS 13 and later"."""
    interpreter: Interpreter | None = None  # None: not one CPython, or no data for it
    interpreters: Mapping[tuple[tuple[int, int], bool], Interpreter] = field(default_factory=dict)
    """All CPythons there is data about on that system, by version and whether without the GIL."""
    library_data: Mapping[str, SystemLibrary] = field(
        default_factory=dict
    )  # exports by the same names, where known
    dll_directories: tuple[str, ...] = ()  # relative to site-packages: what a profile says is added
    unjudged: tuple[str, ...] = ()  # platform tags of the package that this is not the system of
