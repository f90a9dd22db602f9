"""What Python code imports, and whether it may load libraries by itself: by its words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_WORDS = (
    b"ctypes",
    b"cffi",
    b"dlopen",
    b"CDLL",
    b"load_library",
    b"add_dll_directory",
    b"RTLD_GLOBAL",
    b"LD_LIBRARY_PATH",
)
_HINTS = (*_WORDS, b"environ[")
_LOADING = re.compile(
    rb"(?<!\w)(?:" + b"|".join(_WORDS) + rb"""|environ\[\s*["']PATH["']\s*\])(?!\w)""", re.ASCII
)
"""Whole words: PYTHONPATH is not PATH."""
_EVERYWHERE = b"RTLD_GLOBAL"
_KEYWORD = b"import"
_FARTHEST = 512  # bytes of a line before the keyword
_STATEMENT = re.compile(
    rb"""[ \t]*(?:import[ \t]+([\w., \t]{1,999})|from[ \t]+(\w[\w.]{0,250})[ \t]+import\b"""
    rb"""[ \t]*(?:\(([\w, \t\r\n]{1,999})|([\w, \t]{1,999}))?)"""
)
"""From the beginning of a line on."""
_CALL = re.compile(rb"""(?<!\w)(?:import_module|__import__)\(\s*["'](\w[\w.]{0,250})["']""")


class LoadingWords(NamedTuple):
    """What the sources of a package say together."""

    imports: frozenset[str]  # full names of modules
    loading: str  # "ctypes in demo/__init__.py"; "" where no word is of loading libraries
    everywhere: bool  # whether one says RTLD_GLOBAL


def _list_names(text: bytes) -> Iterator[bytes]:
    """Those in ``first, second as name``."""
    yield from (each.split()[0] for each in text.split(b",") if each.split())


def _list_imports(content: bytes) -> Iterator[bytes]:
    """The modules that statements import, and calls whose text says which.

    Most lines are passed over in no time: all of these have the keyword in them.
    """
    place = content.find(_KEYWORD)
    while place >= 0:
        line = content.rfind(b"\n", max(place - _FARTHEST, 0), place) + 1
        statement = _STATEMENT.match(content, line) if line or place <= _FARTHEST else None
        if statement is not None:
            several, module, inner, plain = statement.groups(default=b"")
            yield from _list_names(several)
            if module:
                yield module
                # "from nvidia import cublas": each name may be a module.
                yield from (module + b"." + each for each in _list_names(inner or plain))
        called = _CALL.match(content, place) or _CALL.match(content, max(place - 2, 0))
        if called is not None:
            yield called[1]
        after = max(place + len(_KEYWORD), statement.end() if statement is not None else 0)
        place = content.find(_KEYWORD, after)


def read_words(sources: Iterable[tuple[str, bytes]]) -> LoadingWords:
    """Read the words of sources, which come by their paths."""
    imports, everywhere = set[bytes](), False
    outermost: tuple[int, str] | None = None
    word = b""
    for path, content in sources:
        imports.update(_list_imports(content))
        rank = (path.count("/"), path)
        if (outermost is None or rank < outermost) and any(map(content.__contains__, _HINTS)):
            found = _LOADING.search(content)
            if found is not None:
                outermost, word = rank, found[0]
        if not everywhere and _EVERYWHERE in content:
            everywhere = _EVERYWHERE in _LOADING.findall(content)
    return LoadingWords(
        imports=frozenset(each.decode() for each in imports),
        loading=f"{word.decode()} in {outermost[1]}" if outermost is not None else "",
        everywhere=everywhere,
    )
