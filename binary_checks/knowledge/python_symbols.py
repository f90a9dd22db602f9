"""Whose the symbols are that look like Python's: an object's format says it, or the loader."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from binary_checks.knowledge.python_dlls import is_python_dll
from binary_checks.model import Format, Linkage, MachOFile, ObjectFile, PeFile

_PREFIXES = ("Py", "_Py")
_INIT = "PyInit"  # modules' own
_PROGRAM = "@executable"  # which is Python, where an extension module is loaded
_DYLIB = (
    r"(?:.*/)?(?:Python3?\.framework/(?:Versions/3\.\d+t?/)?Python3?|libpython3(?:\.\d+t?)?\.dylib)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonSymbols:
    """The symbols of the C API's shape that an object cannot do without."""

    asked: frozenset[str]  # of Python by its name, as PE always does
    anywhere: frozenset[str]  # looked up in all that is loaded, as ELF always does

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.asked | self.anywhere


def find_python_symbols(library: ObjectFile, only: frozenset[str] | None = None) -> PythonSymbols:
    """Find them, or of some names ``only`` which are such.

    Those are left out that are asked of another library than Python by its name: libshiboken6 has a
    PyRun_String of its own, of which PySide6 asks it on macOS and Windows.
    """
    asked: set[str] = set()
    anywhere: set[str] = set()
    for provider, names in _group_by_provider(library, only):
        if _is_python(provider, library):
            asked.update(filter(_looks_pythons, names))
        elif not provider:
            anywhere.update(filter(_looks_pythons, names))
    anywhere -= asked
    anywhere -= library.exports.among(anywhere)
    return PythonSymbols(asked=frozenset(asked), anywhere=frozenset(anywhere))


def _looks_pythons(name: str) -> bool:
    return name.startswith(_PREFIXES) and not name.startswith(_INIT)


def _group_by_provider(
    library: ObjectFile, only: frozenset[str] | None
) -> Iterator[tuple[str, Collection[str]]]:
    """The symbols that may not be missing, by whom they are asked of, "" where of anyone.

    In ELF the first definition is taken that is loaded; its version nodes change nothing.
    """
    if library.format != Format.ELF:
        for provider, asked in library.imports.strong.items():
            yield provider, asked if only is None else asked & only
        return
    imports = library.imports
    names = filter(_looks_pythons, imports.names if only is None else imports.among(only))
    yield "", [n for n in names if any(not each.weak for each in imports.find(n))]


def _is_python(provider: str, library: ObjectFile) -> bool:
    """Whether what an import is asked of is the interpreter."""
    if isinstance(library, PeFile):
        return is_python_dll(provider)
    if isinstance(library, MachOFile):
        if provider == _PROGRAM:
            return True
        return "ython" in provider and re.fullmatch(_DYLIB, provider) is not None
    return False


class Owners:
    """What the loader's simulation knows of symbols that are looked up anywhere."""

    def __init__(self, linkage: Linkage) -> None:
        self._linkage = linkage
        self._elsewhere = dict(linkage.own_python_symbols)
        self._incomplete = dict(_find_incomplete(linkage))

    def leave_pythons(self, library: ObjectFile, names: frozenset[str]) -> frozenset[str]:
        """Leave out the names that a library which is loaded with the object defines."""
        return names.difference(self._elsewhere.get(library.path, ()))

    def doubt(self, library: ObjectFile) -> str:
        """Why a library that nobody could look into may define them; "" where none can."""
        if library.format != self._linkage.format:
            platform = self._linkage.target.partition(",")[0]
            return f"{platform}, which was judged, loads no {library.format}"
        missing = self._incomplete.get(library.path)
        return f"{missing} is missing" if missing else ""


def _find_incomplete(linkage: Linkage) -> Iterator[tuple[str, str]]:
    """Objects of which not everything that is loaded with them is known, and what is not."""
    missing: Mapping[str, str] = {
        edge.path: edge.needed
        for edge in reversed(linkage.edges)
        # Libraries of the system have nothing of Python, whichever releases have them.
        if edge.resolved is None and not edge.unknown and not edge.partly
    }
    for _, loaded in reversed(linkage.closures):
        absent = next((missing[path] for path in loaded if path in missing), "")
        for path in loaded if absent else ():
            yield path, absent
