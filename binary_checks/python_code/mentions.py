"""The Python files of a package in which the loading of DLLs is mentioned, and what they do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

_LONGEST = 32  # bytes of a mention
_SUFFIXES = (".py", ".pth")
_TESTS = frozenset({"test", "tests", "testing", "conftest.py"})  # what users never import


class Mention:
    """What code says that does a certain thing: expressions, compiled when they are used."""

    def __init__(self, *hints: bytes, pattern: bytes) -> None:
        """Wherever ``pattern`` is, which is short, is one of the ``hints``.

        Each of these begins with one known letter, so that most code is passed over in no time.
        """
        self._hints = hints
        self._pattern = pattern

    @cached_property
    def _searches(self) -> tuple[Callable[[bytes], object], ...]:
        return tuple(re.compile(hint).search for hint in self._hints)

    def is_in(self, code: bytes) -> bool:
        """Whether it is in that piece of code."""
        hinted = any(search(code) for search in self._searches)
        return hinted and re.search(self._pattern, code) is not None

    def search(self) -> Callable[[bytes], bool]:
        """A function that takes code piece by piece and says whether it was in it yet."""
        found, tail = False, b""

        def take(piece: bytes) -> bool:
            nonlocal found, tail
            code = tail + piece
            found, tail = found or self.is_in(code), code[-_LONGEST:]
            return found

        return take


_ADDS = rb"add_dll_directory|AddDllDirectory"
ADDING = Mention(rb"d(?:_dll_directory|DllDirectory)", pattern=_ADDS)
LOADING = Mention(
    rb"d(?:lopen|Library|_library|_dll_directory|DllDirectory)",
    rb"DLL",
    pattern=_ADDS + rb"|LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library",
)
OPENING = Mention(
    rb"d(?:lopen|Library|_library)",
    rb"DLL",
    rb"spec_from_file_location",
    rb"ExtensionFileLoader",
    pattern=rb"LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library|spec_from_f|ExtensionFileL",
)


class MentionSearch:
    """Searches members for a mention while they stream by, in several threads."""

    def __init__(self, mention: Mention, is_searched: Callable[[str], bool]) -> None:
        self._mention = mention
        self._is_searched = is_searched
        self.found: set[str] = set()  # names of members

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        """What is shown the content of the member of that name, None where nobody searches it."""
        if not self._is_searched(name):
            return None
        take = self._mention.search()

        def see(piece: bytes) -> None:
            if take(piece):
                self.found.add(name)

        return see


class SourceFile(NamedTuple):
    """A Python file, read when it is its turn."""

    path: str  # installed
    size: int
    read: Callable[[], bytes]


class Opening(NamedTuple):
    """A call by which code opens files of its package."""

    source: str
    paths: tuple[str, ...]
    patterns: tuple[str, ...]  # of those whose names only running it completes
    tried: bool  # whether it goes on where that fails
    late: bool  # whether no import comes there


class Openings(NamedTuple):
    """What the code of a package opens."""

    calls: tuple[Opening, ...]
    left: tuple[str, ...]  # sources that were not followed to their end


class DllLoading(NamedTuple):
    """What the code of a package does, see ``Package``."""

    dll_directories: tuple[str, ...] = ()
    loading_code: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()

    def placed(self, place: Callable[[str], str]) -> DllLoading:
        """The same with other paths: all of them count from site-packages, where code stands."""
        return DllLoading(*(tuple(map(place, paths)) for paths in self))


def is_source(path: str) -> bool:
    """Whether a file is Python code that users' processes may run."""
    return path.endswith(_SUFFIXES) and _TESTS.isdisjoint(path.split("/"))
