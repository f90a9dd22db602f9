"""The Python files of a package in which the loading of DLLs is mentioned, and what they do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_SUFFIXES = (".py", ".pth")
_TESTS = frozenset({"test", "tests", "testing", "conftest.py"})  # what users never import

ADDING = re.compile(rb"add_dll_directory|AddDllDirectory")
LOADING = re.compile(
    rb"add_dll_directory|AddDllDirectory|LoadLibrary|CDLL|WinDLL|OleDLL|PyDLL|dlopen|load_library"
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
