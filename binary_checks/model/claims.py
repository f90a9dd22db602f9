"""What a package promises its users, whatever kind of package it is."""

from __future__ import annotations

from dataclasses import dataclass

ANY_SYSTEM = "any"


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemClaim:
    """One family of systems that a package claims to run on.

    From a wheel's platform tag, from conda's subdir with ``__glibc`` or ``__osx``, or from the
    file name of a libtorch archive.
    """

    name: str  # as the package spells it: "manylinux_2_28_x86_64", "linux-64 with __glibc >=2.17"
    system: str = ""
    """``linux``, ``macos``, ``windows``, or another's own name (``ios``); ``any`` where the package
    claims every system; "" where it is not known what is claimed."""
    libc: str = ""  # of Linux: "glibc" or "musl"; "" where it does not say which
    minimum: tuple[int, int] | None = None
    """The oldest version of that libc or, elsewhere, of the system; None: nothing is promised."""
    architectures: tuple[str, ...] = ()  # as platform tags of Linux spell them; () if unknown
    libraries: tuple[str, ...] | None = None
    """Of the system's libraries those that it counts on: other packages bring the rest. None: all
    that such a system is known to have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonClaim:
    """One family of Pythons that a package claims to run on."""

    name: str  # as the package spells it: "cp311-cp311", "py3-none", "python 3.11"
    implementation: str = ""  # "cpython", "pypy", "graalpy"; "" for every one
    version: tuple[int, int] | None = None
    """The version, or with an ABI that is not bound to one the oldest; None: every one."""
    abi: str = ""  # "cp311", "cp313t", "abi3", "abi3t"; "" for none
    free_threaded: bool = False


PYTHON_3 = (3, 0)


def is_python_2(claim: PythonClaim) -> bool:
    """Whether a claim is of Python 2 alone: ``cp27-cp27mu``, ``py2-none``."""
    if claim.version is not None:
        return claim.version < PYTHON_3
    return claim.name.partition("-")[0] == "py2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a package says of the systems it is for: each entry is a promise of its own."""

    systems: tuple[SystemClaim, ...] = ()  # each once, in the order of their names
    pythons: tuple[PythonClaim, ...] = ()  # none: it is bound to no Python
    requirements: tuple[str, ...] = ()
    """The other packages that it needs, as PEP 508 spells it; from a kind that has another
    spelling what PEP 508 can say of it, at least the name."""
    provided: tuple[str, ...] = ()
    """Libraries that those packages are known to bring: sonames, install names, DLL names."""
    partial: bool = False
    """Whether it is a part of what users get, as a single file or a folder of a build is: whatever
    is not in it may come with the rest."""
    variant: str = ""  # "cpu", "cu126": what it is built for, where one version has several builds
