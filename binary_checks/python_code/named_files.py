"""Which of a package's object files its own code spells out, and which of them it opens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from binary_checks.python_code.dll_directories import find_loading
from binary_checks.python_code.mentions import OPENING, SourceFile

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
_LOCATES = re.compile(rb"__file__|__path__|__spec__|resources|find_spec|getfile|prefix")
"""What code needs that computes the path of the package's own files: most opens the system's."""
_TAGGED = re.compile(r"\.(?:cpython-\d|cp\d\d|abi3|pypy\d|graalpy\d)[\w-]*\.(?:so|pyd)$")
_LIBRARY = re.compile(r"(?i)\.(?:so|dylib|dll|pyd|exe)(?:\.|$)")


class NamedFiles(NamedTuple):
    """Paths of a package's files, see ``CodeNames``."""

    named: frozenset[str]
    opened: frozenset[str]
    patterns: tuple[str, ...]
    guided: frozenset[str]
    tried: frozenset[str]
    late: tuple[str, ...]
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
        self._modules: set[str] = set()

    def see(self, content: bytes) -> bool:
        """Search one source; whether it also opens libraries, and computes where its own lie."""
        words = _list_words(content)
        if not self._stems.keys().isdisjoint(words):
            words = _list_words(_TESTS.sub(b"", content))
        found = {path for word in words for path in self._stems.get(word, ())}
        self._named |= {path for word in words for path in self._whole.get(word, ())}
        self._hinted |= found
        if found and _GUIDES.search(content):
            self._guided |= found
        opens = OPENING.is_in(content)
        self._opens |= opens
        if opens:
            self._modules.update(name.decode() for name in _LOADS.findall(content))
        return opens and _LOCATES.search(content) is not None

    def conclude(self, opening: Iterable[SourceFile], paths: Iterable[str]) -> NamedFiles:
        """Follow those sources that open libraries, among all ``paths`` of the package."""
        loading = find_loading(opening, paths)
        return NamedFiles(
            named=frozenset(self._named | self._hinted if self._opens else self._named),
            opened=frozenset(loading.preloaded),
            patterns=loading.patterns,
            guided=frozenset(self._guided),
            tried=frozenset(loading.tried),
            late=loading.late,
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


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether code that completes one of those patterns may mean the file."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)
