"""What the elements of a search path mean for the object that carries them."""

from __future__ import annotations

import functools
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable

from binary_checks.model.objects import ElfFile, Kind, MachOFile, ObjectFile
from binary_checks.model.packages import Package

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
