"""What Python code imports, and whether it may load libraries by itself: by its words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_WORDS = rb"ctypes|cffi|dlopen|CDLL|load_library|add_dll_directory|RTLD_GLOBAL|LD_LIBRARY_PATH"
_LOADING = re.compile(
    rb"(?<!\w)(?:" + _WORDS + rb"""|environ\[\s*["']PATH["']\s*\])(?!\w)""", re.ASCII
)
"""Whole words: PYTHONPATH is not PATH."""
_EVERYWHERE = b"RTLD_GLOBAL"
_IMPORT = re.compile(
    rb"""^[ \t]*(?:import[ \t]+([\w., \t]{1,999})|from[ \t]+(\w[\w.]{0,250})[ \t]+import\b"""
    rb"""[ \t]*(?:\(([\w, \t\r\n]{1,999})|([\w, \t]{1,999}))?)"""
    rb"""|\b(?:import_module|__import__)\(\s*["'](\w[\w.]{0,250})["']""",
    re.MULTILINE,
)


class LoadingWords(NamedTuple):
    """What the sources of a package say together."""

    imports: frozenset[str]  # full names of modules
    loading: str  # "ctypes in demo/__init__.py"; "" where no word is of loading libraries
    everywhere: bool  # whether one says RTLD_GLOBAL


def _list_names(text: bytes) -> Iterator[bytes]:
    """Those in ``first, second as name``."""
    yield from (each.split()[0] for each in text.split(b",") if each.split())


def read_words(sources: Iterable[tuple[str, bytes]]) -> LoadingWords:
    """Read the words of sources, which come by their paths."""
    imports, loading, everywhere = set[bytes](), dict[str, str](), False
    for path, content in sources:
        for several, module, inner, plain, dynamic in _IMPORT.findall(content):
            imports.update(_list_names(several))
            imports.update(filter(None, (module, dynamic)))
            # "from nvidia import cublas": each name may be a module.
            imports.update(module + b"." + each for each in _list_names(inner or plain))
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
