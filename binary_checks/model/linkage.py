"""Results of simulating the loader, and the meaning of search paths; no verdicts."""

from __future__ import annotations

import functools
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from binary_checks.model.objects import ElfFile, Format, Kind, MachOFile, ObjectFile
from binary_checks.model.packages import Deriving, Layout, Package
from binary_checks.model.protocols import Source
from binary_checks.safe_text import SHOWN, elide


class Rule(str, Enum):
    """The rule by which the loader finds a needed library."""

    LOADED = "loaded"  # only because a library of that name is already loaded
    # like LOADED, and an import of the package's code loads that library first
    LOADED_FIRST = "loaded-first"
    RPATH = "rpath"
    RUNPATH = "runpath"
    SYSTEM = "system"  # the platform tag promises it
    PYTHON = "python"  # the interpreter provides it
    PATH = "path"  # a needed name with a slash
    LOADER_PATH = "loader-path"
    EXECUTABLE_PATH = "executable-path"
    FALLBACK = "fallback"  # dyld's old default directories, for images of old SDKs
    API_SET = "api-set"
    APPLICATION = "application"
    ADDED_DIRECTORY = "added-directory"
    SIBLING = "sibling"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """One needed library of one object, and how the loader resolves its name."""

    path: str  # the object that needs the library
    architecture: str
    needed: str
    resolved: str | None = None  # a path, system:<name>, python:<name> or wheel:<dist>:<path>
    rule: Rule = Rule.MISSING
    # the object whose loading leads to this need (the first such object, in path order)
    root: str = ""
    searched: tuple[str, ...] = ()  # directories of the prefix that were searched, in order
    # required distributions that were not given, but may contain the library
    may_come_with: tuple[str, ...] = ()
    # objects of that name in the layout that the search does not find
    elsewhere: tuple[str, ...] = ()
    # the file that a search would find if no library of that name were loaded
    shadowed: str | None = None
    weak: bool = False  # may be missing (LC_LOAD_WEAK_DYLIB)
    delayed: bool = False  # resolved at the first call, not when the object is loaded
    unknown: str = ""  # why the presence of the library is unknown; "" if known
    # the promised systems that have the library, if not all do: "macOS 13 and later"
    partly: str = ""
    # the file of the prefix that satisfied the need in a process that imported the package
    proven: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnresolvedSymbol:
    """An undefined symbol that nothing in scope defines when a root loads the object."""

    path: str
    name: str
    version: str = ""
    # the library that the symbol is bound to, if the format states one, or that has it `since`
    library: str = ""
    root: str = ""
    provider: str = ""  # a library in scope that defines the name, but in another version
    elsewhere: str = ""  # an object of the layout that defines it, but is not in scope
    # the version node of the first release of `library` that has it, newer than the promised one
    since: str = ""
    before: str = ""  # the library of the system that has it in older releases
    # an object that defines the same function for libstdc++'s other std::string
    other_abi: str = ""
    architecture: str = ""  # of the slice, if the tag promises more than one
    delayed: bool = False  # looked up at the first call, not when the object is loaded
    # the file of the prefix that defines it in a process that imported the package
    proven: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MistypedFunction:
    """A function that a WebAssembly module imports with another type than its provider states."""

    path: str
    name: str
    wanted: str  # "(i32 i32) -> i32"
    provided: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingVersion:
    """A version node that an object needs, but that the library it finds does not define."""

    path: str
    library: str
    version: str
    provider: str
    root: str = ""
    versioned: bool = True  # whether the provider has versions at all; if not, ld.so aborts
    proven: bool = False  # whether a process that imported the package loaded the object


@dataclass(frozen=True, kw_only=True, slots=True)
class UnexploredSymbols:
    """Undefined symbols of an object that could not be looked up in all libraries."""

    path: str
    count: int
    reason: str  # "libGL.so.1 has no export data"


@dataclass(frozen=True, kw_only=True, slots=True)
class DispensableObject:
    """An object that the package can do without, as far as the package's code shows."""

    path: str
    reason: str  # "no import of the package reaches it"
    # the cause that all libraries share which such objects lack; "": each library is its own cause
    cause: str = ""
    complete: bool = True
    """Whether all faults of the object can be ignored. If false, only missing libraries from
    outside the package can be ignored, as for an extension module whose import may fail.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage(Deriving):
    """The result of simulating the loader for a package on one target system."""

    target: str  # the target system: "manylinux_2_28_x86_64, CPython 3.11"
    layout: Layout = field(default_factory=Layout)  # of the prefix to which all paths are relative
    format: Format = Format.ELF  # of the objects that the target's loader loads
    edges: tuple[Edge, ...] = ()
    given_edges: tuple[Edge, ...] = ()
    """Edges of objects in packages given next to this one, if objects of this package load them or
    find them loaded; the paths begin with ``wheel:``.
    """
    # objects that are loaded directly: extensions, executables, libraries
    roots: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()  # libraries grafted into the package that no root reaches
    # root -> the objects loaded because of it, in load order
    closures: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unresolved: tuple[UnresolvedSymbol, ...] = ()
    missing_versions: tuple[MissingVersion, ...] = ()
    mistyped: tuple[MistypedFunction, ...] = ()
    unexplored: tuple[UnexploredSymbols, ...] = ()
    own_python_symbols: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Object -> undefined symbols named like the C API of Python, but defined by another
    library.
    """
    unknown_exports: tuple[tuple[str, int], ...] = ()
    """(system library without export data, number of symbols imported from it)."""
    requirements: tuple[str, ...] = ()  # names of applicable Requires-Dist that were not given
    unjudged: tuple[str, ...] = ()  # platform tags of the package that were not simulated
    names: frozenset[str] = frozenset()
    """The names under which the loader knows the layout's libraries: file names and sonames."""
    # names of the packages given next to this one, whose files belong to the layout
    given: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Packages given next to this one that were left out because Requires-Dist excludes them:
    ``numpy 1.0, where numpy>=2 is required``."""
    dispensable: tuple[DispensableObject, ...] = ()  # in path order
    loading_code: str = ""
    """Evidence that the package's own Python code may load libraries: ``ctypes in
    demo/__init__.py``, or why the code was not read. Only searched if some library is found just
    because it was loaded earlier.
    """
    loads_everywhere: bool = False  # whether that code also mentions RTLD_GLOBAL

    def find_dispensable(self, path: str) -> DispensableObject | None:
        """Return the entry for an object if the package can do without that object, else None."""
        return self.derive(_map_dispensable).get(path)

    def edges_of(self, path: str, architecture: str) -> tuple[Edge, ...]:
        """Return the edges of one object, in the order of ``edges``.

        The result is empty if the object is not loaded through any root.
        """
        return tuple(self.derive(_group_edges).get((path, architecture), ()))


def _group_edges(linkage: Linkage) -> Mapping[tuple[str, str], Sequence[Edge]]:
    by_object: dict[tuple[str, str], list[Edge]] = {}
    for edge in linkage.edges:
        by_object.setdefault((edge.path, edge.architecture), []).append(edge)
    return by_object


def _map_dispensable(linkage: Linkage) -> Mapping[str, DispensableObject]:
    return {each.path: each for each in linkage.dispensable}


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    """The linkage as the simulated loader alone finds it, before any process has loaded objects."""

    linkage: Linkage
    # the package as this run installed it, if its neighbours there were needed
    installed: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyOpener:
    """A library, in a package given next to the judged one, that opens others of its family."""

    label: str  # "wheel:nvidia-cudnn-cu13:nvidia/cudnn/lib/libcudnn.so.9"
    item: ObjectFile


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenFamilies:
    """All libraries that open others of their family, in packages given next to the judged one."""

    openers: tuple[FamilyOpener, ...] = ()


# Meaning of the elements of a search path for the object that contains it.

_PROGRAMS = "bin"
"""The directory of the program Python, which loads extension modules on macOS."""

# ld.so expands ``$ORIGIN`` only if no letter, digit or underscore follows, but always expands
# ``${ORIGIN}`` (elf/dl-load.c).
_DYNAMIC = r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))"
_WORLD_WRITABLE = (
    *("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock", "/run/user"),  # noqa: S108
    *("/media", "/run/media", "/private/tmp", "/private/var/tmp", "/Volumes", "/Users/Shared"),
)
"""Directories in which every user of a machine can create folders, or mount a disk of any name."""
_ORIGIN = "\0"
_SIXTY_FOUR_BIT = frozenset(
    {"x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64"}
)


def expand(element: str, owner: ElfFile | MachOFile) -> str | None:
    """Return the directory in the prefix that an element of a search path names.

    Return None for an absolute path, which belongs to the user's machine rather than to a package,
    and for a path relative to the current directory: "", ".", "lib".
    """
    if isinstance(owner, MachOFile):
        program = owner.directory if owner.kind is Kind.EXECUTABLE else _PROGRAMS
        return expand_load_path(element, owner.directory, program)
    return _expand(element, owner.directory, owner.architecture)


def expand_load_path(element: str, loader: str, program: str | None) -> str | None:
    """Return the path in the prefix that a load path of dyld names.

    ``@loader_path`` is the directory of the image with the load command, ``@executable_path`` the
    directory of the program. Return None for any other path: absolute, relative to the current
    directory, or below ``@rpath``.
    """
    token, slash, rest = element.partition("/")
    start = {"@loader_path": loader, "@executable_path": program}.get(token)
    if start is None:
        return None
    return normalise(f"{start or '.'}{slash}{rest}")


@functools.lru_cache(maxsize=4096)
def _expand(element: str, directory: str, architecture: str) -> str | None:
    expanded = re.sub(_DYNAMIC, lambda match: _value(match[1] or match[2], architecture), element)
    rest = expanded[1:]
    if not expanded.startswith(_ORIGIN) or _ORIGIN in rest:
        return None
    if directory:
        return normalise(directory + rest)  # "$ORIGIN.libs" appends to the directory's name
    return normalise(rest.lstrip("/")) if rest.startswith("/") or not rest else None


def _value(name: str, architecture: str) -> str:
    if name == "ORIGIN":
        return _ORIGIN
    if name == "LIB":
        # Debian uses lib/x86_64-linux-gnu, but the images of the policies, based on Red Hat's, use
        # lib64.
        return "lib64" if architecture in _SIXTY_FOUR_BIT else "lib"
    return architecture


def path_elements(owner: ObjectFile) -> tuple[str, ...]:
    """Return the elements of the effective search path: RUNPATH if present, else RPATH.

    ld.so ignores a search path that is completely empty, but an empty element of a longer path is
    the current directory. A PE image has no search path.
    """
    if isinstance(owner, MachOFile):
        return owner.rpaths
    if not isinstance(owner, ElfFile):
        return ()
    elements = owner.runpath or owner.rpath
    return () if elements == ("",) else elements


def normalise(path: str) -> str:
    """Resolve ``.`` and ``..`` in a path relative to the prefix; "" is the prefix itself."""
    shortened = posixpath.normpath(path)
    return "" if shortened == "." else shortened


def leaves_prefix(directory: str) -> bool:
    """Return whether a path relative to the prefix leads out of the prefix."""
    return directory == ".." or directory.startswith("../")


class Directories:
    """The directories of a package's files and all parent directories; "" is the prefix.

    The parents are computed instead of stored: a single path of 64,000 letters could take a
    gigabyte.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._folders = sorted({f"{path.rpartition('/')[0]}/" for path in paths})

    def __contains__(self, directory: str) -> bool:
        beginning = f"{directory}/" if directory else ""
        place = bisect_left(self._folders, beginning)
        return place < len(self._folders) and self._folders[place].startswith(beginning)


def directories(package: Package) -> Directories:
    """Return the directories in which the package has files."""
    return Directories(item.path for items in (package.members, package.objects) for item in items)


def path_tag(owner: ObjectFile) -> str:
    """Return the dynamic tag or load command of the effective search path, as tools name it."""
    if not isinstance(owner, ElfFile):
        return "LC_RPATH"
    return "RUNPATH" if owner.runpath else "RPATH"


def shorten(element: str, longest: int = SHOWN) -> str:
    """Return the element as messages show it: runs of blanks are replaced by their count.

    ibm_db has ``/`` followed by 252 blanks, which a tool reserved for another path.
    """
    shown = re.sub(r" {2,}", lambda run: f"<{len(run[0])} blanks>", element)
    if shown != shown.strip():
        shown = repr(shown)
    return elide(shown, longest)


def is_open_to_all(directory: str) -> bool:
    """Return whether every user of a machine can create files in that absolute directory."""
    return f"{posixpath.normpath(directory)}/".startswith(
        tuple(f"{each}/" for each in _WORLD_WRITABLE)
    )
