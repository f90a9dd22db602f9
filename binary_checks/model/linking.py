"""How a package is linked with the libraries that it is built from: inside, beside, or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Linking(str, Enum):
    """How a library comes into a process."""

    STATIC = "static"  # its code is part of the object
    DYNAMIC = "dynamic"  # the loader finds it, for the object needs it
    UNKNOWN = "unknown"  # something speaks of it, and does not tell


class Whence(str, Enum):
    """Where the file of a dynamic library comes from."""

    BUNDLED = "bundled"  # the package has it
    SYSTEM = "system"
    PYTHON = "python"
    REQUIRED = "required"  # another package that it requires
    MISSING = "missing"
    UNKNOWN = "unknown"  # the loader was not simulated


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibrary:
    """One library, in one way, of those objects of a package that have it so.

    A library that is not listed is not proven to be absent: nothing in the objects speaks of it.
    """

    name: str  # "OpenSSL"
    role: str  # "TLS": OpenSSL and BoringSSL stand in for each other
    linking: Linking
    version: str = ""  # as a text of the library tells it
    file: str = ""  # that is needed, "libssl.so.3"; "" of one that is static
    whence: Whence | None = None  # None of one that is static
    objects: int = 1  # that have it so
    evidence: str = ""  # which of them comes first, and what says so of it


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedLibraries:
    """All that is known of them."""

    libraries: tuple[LinkedLibrary, ...] = ()  # by role, name and linking
    compilers: tuple[str, ...] = ()  # that left their names: "GCC 14.2.1", "rustc 1.97.1"
