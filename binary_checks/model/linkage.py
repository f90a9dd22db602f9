"""What the target's loader would do with a package, and what search paths mean; no verdicts."""

from __future__ import annotations

import functools
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from binary_checks.model.objects import ElfFile, Format, Kind, MachOFile, ObjectFile
from binary_checks.model.packages import Deriving, Layout, Package


class Rule(str, Enum):
    """The rule of the loader by which a needed library is found."""

    LOADED = "loaded"  # only because something else of that name was loaded before
    LOADED_FIRST = "loaded-first"  # the same, and an import of the package's code loads that
    RPATH = "rpath"
    RUNPATH = "runpath"
    SYSTEM = "system"  # the platform tag promises it
    PYTHON = "python"  # the interpreter brings it
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
    """One needed name of one object, and what the loader makes of it."""

    path: str  # the object that needs
    architecture: str
    needed: str
    resolved: str | None = None  # a path, system:<name>, python:<name>, wheel:<dist>:<path>
    rule: Rule = Rule.MISSING
    root: str = ""  # the object whose loading leads here (the first of them, in path order)
    searched: tuple[str, ...] = ()  # the directories of the prefix that were searched, in order
    may_come_with: tuple[str, ...] = ()  # required distributions, not given, that may have it
    elsewhere: tuple[str, ...] = ()  # objects of the layout of that name that no search finds
    shadowed: str | None = None  # what a search finds, had nothing else been loaded before
    weak: bool = False  # may be missing (LC_LOAD_WEAK_DYLIB)
    delayed: bool = False  # looked for at the first call, not when the object is loaded
    unknown: str = ""  # why it is not known whether the library is there; "" where it is known
    partly: str = ""  # which of the promised systems alone have it: "macOS 13 and later"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnresolvedSymbol:
    """An undefined symbol that nothing in scope defines, its object being loaded through a root."""

    path: str
    name: str
    version: str = ""
    library: str = ""  # the library it is asked of, where the format says so
    root: str = ""
    provider: str = ""  # a library in scope that has the name, but not in that version
    elsewhere: str = ""  # an object of the layout that defines it, but is not in scope
    other_abi: str = ""  # one that has the function, compiled for libstdc++'s other std::string
    architecture: str = ""  # of the slice, where the tag promises more than one
    delayed: bool = False  # looked up at the first call, not when the object is loaded


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingVersion:
    """A version node that an object needs of a library, which the library found does not define."""

    path: str
    library: str
    version: str
    provider: str
    root: str = ""
    versioned: bool = True  # the provider knows versions at all; where it does not, ld.so aborts


@dataclass(frozen=True, kw_only=True, slots=True)
class UnexploredSymbols:
    """Undefined symbols of an object that could not be looked up everywhere."""

    path: str
    count: int
    reason: str  # "libGL.so.1 has no export data"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bystander:
    """An object that the package, as far as its code shows, can do without."""

    path: str
    reason: str  # "no import of the package reaches it"
    complete: bool = True
    """Whether that holds for all that may be wrong with it; else, as with an extension module whose
    import may fail, only for libraries that are no part of the package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage(Deriving):
    """The simulated loader's whole answer for a package on one target system."""

    target: str  # "manylinux_2_28_x86_64, CPython 3.11": against what it was simulated
    layout: Layout = field(default_factory=Layout)  # of the prefix to which all paths are relative
    format: Format = Format.ELF  # of the objects that the target's loader loads
    edges: tuple[Edge, ...] = ()
    edges_beside: tuple[Edge, ...] = ()
    """Of the objects of packages given beside it that its own load, or find once they are loaded;
    paths are ``wheel:...``."""
    roots: tuple[str, ...] = ()  # what is loaded by itself: extensions, executables, libraries
    orphans: tuple[str, ...] = ()  # libraries grafted into the package that no root reaches
    closures: tuple[tuple[str, tuple[str, ...]], ...] = ()  # root -> what it loads, in load order
    unresolved: tuple[UnresolvedSymbol, ...] = ()
    missing_versions: tuple[MissingVersion, ...] = ()
    unexplored: tuple[UnexploredSymbols, ...] = ()
    own_python_symbols: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Object -> undefined symbols of the C API's shape that a library, not Python, defines."""
    granted: tuple[tuple[str, int], ...] = ()
    """System libraries whose exports are not known, and how many symbols are asked of each."""
    requirements: tuple[str, ...] = ()  # names of applicable Requires-Dist that were not given
    unjudged: tuple[str, ...] = ()  # platform tags of the package that it was not simulated for
    names: frozenset[str] = frozenset()
    """What the libraries of the layout go by, file names and sonames, as the loader spells them."""
    given: tuple[str, ...] = ()  # names of the packages that were part of the layout beside it
    refused: tuple[str, ...] = ()
    """Packages given that Requires-Dist excludes, so that they were left out: ``numpy 1.0, where
    numpy>=2 is required``."""
    bystanders: tuple[Bystander, ...] = ()  # in the order of their paths
    loading_code: str = ""
    """A word by which the package's own Python code may load libraries by itself, and where it
    says that: ``ctypes in demo/__init__.py``, or why it was not read. Asked where a library is
    found only if it was loaded."""
    loads_everywhere: bool = False  # whether that code also says RTLD_GLOBAL
    _by_object: Mapping[tuple[str, str], tuple[Edge, ...]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _by_path: Mapping[str, Bystander] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        by_object: dict[tuple[str, str], list[Edge]] = {}
        for edge in self.edges:
            by_object.setdefault((edge.path, edge.architecture), []).append(edge)
        edges_of = {key: tuple(edges) for key, edges in by_object.items()}
        object.__setattr__(self, "_by_object", edges_of)
        object.__setattr__(self, "_by_path", {each.path: each for each in self.bystanders})

    def show(self, label: str) -> str:
        """An object, or where a library comes from, as sentences call it."""
        return self.layout.shorten_label(label)

    def bystander(self, path: str) -> Bystander | None:
        """Why the package can do without an object; None where it cannot."""
        return self._by_path.get(path)

    def edges_of(self, path: str, architecture: str) -> tuple[Edge, ...]:
        """The needs of one object, in the order of ``edges``; none where no root reaches it."""
        return self._by_object.get((path, architecture), ())


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyOpener:
    """A library of a package given beside the judged one that opens others of its family."""

    label: str  # "wheel:nvidia-cudnn-cu13:nvidia/cudnn/lib/libcudnn.so.9"
    item: ObjectFile


@dataclass(frozen=True, kw_only=True, slots=True)
class FamiliesBeside:
    """All of those, of every package given."""

    openers: tuple[FamilyOpener, ...] = ()


# What the elements of a search path mean for the object that carries them.

_PROGRAMS = "bin"
"""Where the program lies that loads an extension module on macOS: Python's."""

# ld.so takes $ORIGIN only where no further letter follows, ${ORIGIN} anywhere (elf/dl-load.c).
_DYNAMIC = r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))"
_ANYBODYS = (
    *("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock", "/run/user"),  # noqa: S108
    *("/media", "/run/media", "/private/tmp", "/private/var/tmp", "/Volumes", "/Users/Shared"),
)
"""Where every user of a machine can create folders, or mount a disk of any name."""
_LONGEST = 100  # characters of an element in a sentence
_ORIGIN = "\0"
_SIXTY_FOUR_BIT = frozenset(
    {"x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64"}
)


def expand(element: str, owner: ElfFile | MachOFile) -> str | None:
    """Say which directory of the prefix an element names.

    None for an absolute path, which is the user's machine's and no package's, and for the current
    directory, which is wherever the user happens to be: "", ".", "lib".
    """
    if isinstance(owner, MachOFile):
        program = owner.directory if owner.kind is Kind.EXECUTABLE else _PROGRAMS
        return expand_load_path(element, owner.directory, program)
    return _expand(element, owner.directory, owner.architecture)


def expand_load_path(element: str, loader: str, program: str | None) -> str | None:
    """Say what a path of dyld names in the prefix, seen from those two directories.

    ``@loader_path`` is that of the image that has the load command, ``@executable_path`` that of
    the program. None for all that is no place of a package: an absolute path, one that is relative
    to the current directory, and one below ``@rpath``.
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
        return normalise(directory + rest)  # "$ORIGIN.libs" goes on behind the directory's name
    return normalise(rest.lstrip("/")) if rest.startswith("/") or not rest else None


def _value(name: str, architecture: str) -> str:
    if name == "ORIGIN":
        return _ORIGIN
    if name == "LIB":
        # Debian says lib/x86_64-linux-gnu; the policies' own images, Red Hat's, say lib64.
        return "lib64" if architecture in _SIXTY_FOUR_BIT else "lib"
    return architecture


def path_elements(owner: ObjectFile) -> tuple[str, ...]:
    """The elements of the search path that counts: RUNPATH where there is one, else RPATH.

    A search path that is empty as a whole is no path at all to ld.so, while an empty element of a
    longer one is the current directory. A PE has none.
    """
    if isinstance(owner, MachOFile):
        return owner.rpaths
    if not isinstance(owner, ElfFile):
        return ()
    elements = owner.runpath or owner.rpath
    return () if elements == ("",) else elements


def normalise(path: str) -> str:
    """Resolve ``.`` and ``..`` of a path relative to the prefix; "" is the prefix itself."""
    shortened = posixpath.normpath(path)
    return "" if shortened == "." else shortened


def leaves_prefix(directory: str) -> bool:
    """Whether a path relative to the prefix lies outside of it."""
    return directory == ".." or directory.startswith("../")


class Directories:
    """The directories that a package has files in, itself or further down; "" is the prefix.

    They are never spelled out: the parents of one name of 64,000 letters would take a gigabyte.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._folders = sorted({f"{path.rpartition('/')[0]}/" for path in paths})

    def __contains__(self, directory: str) -> bool:
        beginning = f"{directory}/" if directory else ""
        place = bisect_left(self._folders, beginning)
        return place < len(self._folders) and self._folders[place].startswith(beginning)


def directories(package: Package) -> Directories:
    """The directories that the package has files in."""
    return Directories(item.path for items in (package.members, package.objects) for item in items)


def path_tag(owner: ObjectFile) -> str:
    """The dynamic tag, or load command, of the search path that counts, as tools call it."""
    if not isinstance(owner, ElfFile):
        return "LC_RPATH"
    return "RUNPATH" if owner.runpath else "RPATH"


def shorten(element: str, longest: int = _LONGEST) -> str:
    """An element as a sentence can hold it: blanks at its end are counted, not hidden.

    ibm_db has ``/`` followed by 252 blanks, room that a tool left for another path.
    """
    told = re.sub(r" {2,}", lambda run: f"<{len(run[0])} blanks>", element)
    if told != told.strip():
        told = repr(told)
    return told if len(told) <= longest else f"{told[: longest - 3]}..."


def is_open_to_all(directory: str) -> bool:
    """Whether every user of a machine can put files into that absolute directory."""
    return f"{posixpath.normpath(directory)}/".startswith(tuple(f"{each}/" for each in _ANYBODYS))
