"""Which of a package's object files its own code spells out, found as text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from binary_checks.errors import TooLarge
from binary_checks.python_code.mentions import OPENING

_LONGEST = 128  # characters of a name
_FEW = 24  # names that are searched one after the other, before all words are
_MOST_COMPARED = 4_000_000  # names of files with names that code completes
_QUOTED = re.compile(rb"""["'/\\=]([\w+.-]{1,128})(?=["'{%/\\]|$)""", re.MULTILINE)
"""A word that ends a path or a text, or that code goes on with: ``"libdemo"``, ``f"libdemo{x}"``.
Which quotes belong together is not asked: what is no name of a file does no harm."""
_GUIDES = re.compile(
    rb"""(?:\bLD|DYLD(?:_FALLBACK)?)_LIBRARY_PATH(?:["']?\]?|["'],[^\n]{0,500}\))\s*[=:]"""
)
"""``env["LD_LIBRARY_PATH"] = ...``, ``{"LD_LIBRARY_PATH": ...}``, and a shell's assignment."""
_GUIDING = b"LIBRARY_PATH"
_TESTS = re.compile(rb"""\b(?:exists|isfile)\((?:[\w.]*join\()?[^()\n]*\)""")
"""netCDF4 asks whether plugins/__nczhdf5filters.dll exists, and opens none of the plugins. What
code opens after such a test it spells out again, or keeps in a variable before."""
_TESTING = (b"exists(", b"isfile(")
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


class FileNames:
    """The names of some files, which many searches share."""

    def __init__(self, candidates: Mapping[str, Iterable[str]]) -> None:
        """``candidates``: by path all names of a file, as file name and soname."""
        self.whole: dict[str, set[str]] = {}
        self.stems: dict[bytes, set[str]] = {}
        self._left = _MOST_COMPARED
        for path, names in candidates.items():
            for name in names:
                self.whole.setdefault(name, set()).add(path)
                for spelled in spell_stems(name):
                    self.stems.setdefault(spelled.encode(), set()).add(path)
        self._few = tuple(self.stems) if len(self.stems) <= _FEW else ()

    def may_be_in(self, content: bytes) -> bool:
        """Whether code may have one of the names in it: of many that is not asked."""
        return any(name in content for name in self._few) if self._few else bool(self.stems)

    def complete(self, pattern: str, folders: Collection[str]) -> Iterator[str]:
        """The files of a name that code completes, in folders that it spells out or lies in.

        Raises TooLarge.
        """
        self.pay(sum(map(len, self.whole.values())))
        for name in self.whole:
            for path in self.whole[name] if fnmatchcase(name, pattern) else ():
                if all(folder in folders for folder in path.split("/")[:-1]):
                    yield path

    def pay(self, count: int) -> None:
        """Count names that are compared with what code completes. Raises TooLarge."""
        self._left -= count
        if self._left < 0:
            raise TooLarge("its own code completes too many names of files")


class NameSearch:
    """Searches sources for the names of some files."""

    def __init__(self, names: FileNames) -> None:
        self._names = names
        self._named: set[str] = set()
        # By words that say something only where libraries are opened.
        self._hinted: set[str] = set()
        self._opens = False
        self._guided: set[str] = set()
        self._completed: set[str] = set()
        self._modules: set[str] = set()

    def see(self, path: str, content: bytes) -> None:
        """Search one source, which lies there. Raises TooLarge."""
        opens = OPENING.is_in(content)
        if not opens and not self._names.may_be_in(content):
            return
        whole, stems = self._names.whole, self._names.stems
        words = _list_words(content)
        tests = any(word in content for word in _TESTING)
        if tests and not stems.keys().isdisjoint(words):
            words = _list_words(_TESTS.sub(b"", content))
        spelled = stems.keys() & words
        found = {path for word in spelled for path in stems[word]}
        self._named |= {path for word in spelled for path in whole.get(word.decode(), ())}
        self._hinted |= found
        if found and _GUIDING in content and _GUIDES.search(content):
            self._guided |= found
        if opens:
            self._opens = True
            self._modules.update(name.decode() for name in _LOADS.findall(content))
            folders = {word.decode() for word in words}.union(path.split("/"))
            for name in set(_COMPUTED.findall(content)):
                pattern = _HOLE.sub("*", name.decode("ascii", "replace"))
                self._completed.update(self._names.complete(pattern, folders))

    def conclude(self) -> NamedFiles:
        """Say what all sources name together."""
        return NamedFiles(
            named=frozenset(self._named | self._hinted if self._opens else self._named),
            completed=frozenset(self._completed),
            guided=frozenset(self._guided),
            modules=frozenset(self._modules),
        )


def _list_words(content: bytes) -> set[bytes]:
    words = set(_QUOTED.findall(content))
    return words | {word.rstrip(b".") for word in words if word.endswith(b".")}  # "libdemo.%s"


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
