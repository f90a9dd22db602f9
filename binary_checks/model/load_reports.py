"""What the loader of a clean system says of the objects of a package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from binary_checks.model.probes import ProbeReport


class LoadFaultKind(str, Enum):
    """What a loader misses, or does."""

    LIBRARY = "library"  # a needed library is not there
    VERSION = "version"  # a library is there, and lacks a version of its symbols
    SYMBOL = "symbol"  # nothing that is loaded defines a symbol
    REFUSED = "refused"  # it does not take the object, in its own words


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadFault:
    """One thing for which an object does not load."""

    kind: LoadFaultKind
    path: str  # the object that lacks it, in the prefix; of the system, where it is one of its own
    root: str  # the object that was loaded, in the prefix
    name: str = ""  # of the library or symbol
    version: str = ""  # "GLIBC_2.36"
    provider: str = ""  # the library that lacks the version: "libc.so.6"
    detail: str = ""  # the loader's words, in one line


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport(ProbeReport):
    """Each object of a package, loaded by a clean system's own loader with all that it needs."""

    system: str  # how sentences call it: "image bullseye (glibc 2.31)"
    libc: str = ""  # "glibc 2.31"
    architecture: str = ""  # the model's spelling
    reservation: str = ""  # what a pass there does not prove, as a sentence
    loaded: tuple[str, ...] = ()  # objects that were tried, in the prefix
    faults: tuple[LoadFault, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # objects without an answer, and why
