"""Which of a package's object files its own code spells out, found as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from binary_checks.python_code.mentions import OPENING

_LONGEST = 128  # characters of a name
_QUOTED = re.compile(rb"""["'/\\=]([\w+.-]{1,128})(?=["'{%/\\]|$)""", re.MULTILINE)
"""A word that ends a path or a text, or that code goes on with: ``"libdemo"``, ``f"libdemo{x}"``.
Which quotes belong together is not asked: what is no name of a file does no harm."""
_GUIDES = re.compile(
    rb"""(?:\bLD|DYLD(?:_FALLBACK)?)_LIBRARY_PATH(?:["']?\]?|["'],[^\n]*\))\s*[=:]"""
)
"""``env["LD_LIBRARY_PATH"] = ...``, ``{"LD_LIBRARY_PATH": ...}``, and a shell's assignment."""
_TESTS = re.compile(rb"""\b(?:exists|isfile)\((?:[\w.]*join\()?[^()\n]*\)""")
"""netCDF4 asks whether plugins/__nczhdf5filters.dll exists, and opens none of the plugins. What
code opens after such a test it spells out again, or keeps in a variable before."""
_LOADS = re.compile(
    rb"""\b(?:spec_from_file_location|ExtensionFileLoader)\(\s*["']([\w.]{1,128})["']"""
)
"""PyNvVideoCodec imports PyNvVideoCodec_121.so or PyNvVideoCodec_130.so as ``_PyNvVideoCodec``."""
_COMPUTED = re.compile(rb"""["'/\\]([\w+.-]{4,128}(?:\{[^{}"'\n]{0,80}\}|%\w)[\w+.-]{0,128})["']""")
"""A name that code completes: ``f"libdemo_{x}.so"``, ``"libdemo_%s.so"``."""
_HOLE = re.compile(r"\{.*\}|%\w")
_TAGGED = re.compile(r"\.(?:cpython-\d|cp\d\d|abi3|pypy\d|graalpy\d)[\w-]*\.(?:so|pyd)$")
_LIBRARY = re.compile(r"(?i)\.(?:so|dylib|dll|pyd|exe)(?:\.|$)")


class NamedFiles(NamedTuple):
    """Paths of a package's files, see ``CodeNames``."""

    named: frozenset[str]
    completed: frozenset[str]
    guided: frozenset[str]
    modules: frozenset[str]  # names, no paths


class NameSearch:
    """Searches sources for the names of some files."""

    def __init__(self, candidates: Mapping[str, Iterable[str]]) -> None:
        """``candidates``: by path all names of a file, as file name and soname."""
        self._whole: dict[str, set[str]] = {}
        self._stems: dict[str, set[str]] = {}
        for path, names in candidates.items():
            for name in names:
                self._whole.setdefault(name, set()).add(path)
                for spelled in spell_stems(name):
                    self._stems.setdefault(spelled, set()).add(path)
        self._named: set[str] = set()
        # By words that say something only where libraries are opened.
        self._hinted: set[str] = set()
        self._opens = False
        self._guided: set[str] = set()
        self._completed: set[str] = set()
        self._modules: set[str] = set()

    def see(self, path: str, content: bytes) -> None:
        """Search one source, which lies there."""
        words = _list_words(content)
        if not self._stems.keys().isdisjoint(words):
            words = _list_words(_TESTS.sub(b"", content))
        found = {path for word in words for path in self._stems.get(word, ())}
        self._named |= {path for word in words for path in self._whole.get(word, ())}
        self._hinted |= found
        if found and _GUIDES.search(content):
            self._guided |= found
        if OPENING.is_in(content):
            self._opens = True
            self._modules.update(name.decode() for name in _LOADS.findall(content))
            for name in set(_COMPUTED.findall(content)):
                known = words.union(path.split("/"))
                self._completed |= self._complete(
                    _HOLE.sub("*", name.decode("ascii", "replace")), known
                )

    def _complete(self, pattern: str, folders: set[str]) -> set[str]:
        """The files of a name that code completes, in folders that it spells out or lies in."""
        names = (name for name in self._whole if fnmatchcase(name, pattern))
        found = (path for name in names for path in self._whole[name])
        return {path for path in found if folders.issuperset(path.split("/")[:-1])}

    def conclude(self) -> NamedFiles:
        """Say what all sources name together."""
        return NamedFiles(
            named=frozenset(self._named | self._hinted if self._opens else self._named),
            completed=frozenset(self._completed),
            guided=frozenset(self._guided),
            modules=frozenset(self._modules),
        )


def _list_words(content: bytes) -> set[str]:
    words = {match.decode("ascii", "replace") for match in _QUOTED.findall(content)}
    return words | {word.rstrip(".") for word in words}  # "libdemo.%s"


def spell_stems(name: str) -> Iterator[str]:
    """All that code may write for a library of that name: it adds the ending of the system.

    ``libdemo.so.1``, ``libdemo`` and ``demo`` are one library's, as ``_demo.abi3.so``, ``_demo``.
    """
    if len(name) > _LONGEST:
        return
    yield name
    if tagged := _TAGGED.search(name):
        yield name[: tagged.start()]
        return
    stem = _LIBRARY.split(name, maxsplit=1)[0]
    for each in dict.fromkeys((stem, name.partition(".")[0])):
        if each:
            yield each
            yield each.removeprefix("lib") or each
