"""The paths and flags that an archive's files for CMake and pkg-config name literally."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PathRole(str, Enum):
    """For what a file for build systems names a path."""

    LOCATION = "location"  # of a library of a target
    INCLUDE = "include"  # a directory with headers of a target
    LINK = "link"  # what is linked with a target, and where it is searched for
    VARIABLE = "variable"  # a value of a variable, for whoever reads that


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPath:
    """A path that one of those files names."""

    file: str  # relative to the prefix
    line: int
    role: PathRole
    subject: str  # the target or the variable: "IMPORTED_LOCATION_RELEASE of c10"
    path: str
    """Relative to the prefix; what lies outside of it as it stands, with a slash or a drive at its
    beginning or ``../``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedAbi:
    """A definition of _GLIBCXX_USE_CXX11_ABI that users get from one of those files."""

    file: str
    line: int
    value: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadCode:
    """One of those files that was not read to its end, and why."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFiles:
    """The literals in those files, which are read without running them."""

    paths: tuple[NamedPath, ...] = ()  # in the order of their files and lines
    abi_flags: tuple[StatedAbi, ...] = ()
    unread: tuple[UnreadCode, ...] = ()
