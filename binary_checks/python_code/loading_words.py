"""What Python code imports, and whether it may load libraries by itself: by its words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_WORDS = rb"ctypes|cffi|dlopen|CDLL|load_library|add_dll_directory|RTLD_GLOBAL|LD_LIBRARY_PATH"
_LOADING = re.compile(
    rb"(?<!\w)(?:" + _WORDS + rb"""|environ\[\s*["']PATH["']\s*\])(?!\w)""", re.ASCII
)
"""Whole words: PYTHONPATH is not PATH."""
_EVERYWHERE = b"RTLD_GLOBAL"
_IMPORT = re.compile(
    rb"""^[ \t]*(?:import[ \t]+([\w., \t]{1,999})|from[ \t]+(\w[\w.]{0,250})[ \t]+import\b)"""
    rb"""|\b(?:import_module|__import__)\(\s*["'](\w[\w.]{0,250})["']""",
    re.MULTILINE,
)


class LoadingWords(NamedTuple):
    """What the sources of a package say together."""

    imports: frozenset[str]  # full names of modules
    loading: str  # "ctypes in demo/__init__.py"; "" where no word is of loading libraries
    everywhere: bool  # whether one says RTLD_GLOBAL


def read_words(sources: Iterable[tuple[str, bytes]]) -> LoadingWords:
    """Read the words of sources, which come by their paths."""
    imports, loading, everywhere = set[bytes](), dict[str, str](), False
    for path, content in sources:
        for several, module, dynamic in _IMPORT.findall(content):
            imports.update(each.split()[0] for each in several.split(b",") if each.split())
            imports.update(filter(None, (module, dynamic)))
        found = _LOADING.search(content)
        if found:
            loading[path] = found[0].decode()
            everywhere = everywhere or _EVERYWHERE in _LOADING.findall(content)
    first = min(loading, key=lambda path: (path.count("/"), path), default="")
    return LoadingWords(
        imports=frozenset(each.decode() for each in imports),
        loading=f"{loading[first]} in {first}" if first else "",
        everywhere=everywhere,
    )
