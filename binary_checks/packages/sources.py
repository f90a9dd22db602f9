"""The Python files of a package in which the loading of DLLs is mentioned, and what they do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_SUFFIXES = (".py", ".pth")
_TESTS = frozenset({"test", "tests", "testing", "conftest.py"})  # what users never import


class Mention(NamedTuple):
    """What code says that does a certain thing."""

    words: tuple[bytes, ...]  # of which it has one: searched for in no time
    pattern: re.Pattern[bytes]  # of at most 32 bytes

    def is_in(self, code: bytes) -> bool:
        """Whether it is in that piece of code."""
        return any(word in code for word in self.words) and bool(self.pattern.search(code))


_ADDS = (b"add_dll_directory", b"AddDllDirectory")
ADDING = Mention(_ADDS, re.compile(b"|".join(_ADDS)))
LOADING = Mention(
    (*_ADDS, b"LoadLibrary", b"DLL", b"dlopen", b"load_library"),
    re.compile(rb"%b|LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library" % b"|".join(_ADDS)),
)


class Source(NamedTuple):
    """A Python file, read when it is its turn."""

    path: str  # installed
    size: int
    read: Callable[[], bytes]


class Loading(NamedTuple):
    """What the code of a package does, see ``Package``."""

    dll_directories: tuple[str, ...] = ()
    loading_code: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()


def is_source(path: str) -> bool:
    """Whether a file is Python code that users' processes may run."""
    return path.endswith(_SUFFIXES) and _TESTS.isdisjoint(path.split("/"))
