"""Object files that are named in the package's own code, found by searching the code's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

# names that are searched one by one; if there are more, all words of a text are looked up
_FEW = 24
_QUOTED = re.compile(rb"""["'/\\=]([\w+.-]{1,128})(?=["'{%/\\]|$)""", re.MULTILINE)
"""A word that ends a path or a string, or that code continues: ``"libdemo"``, ``f"libdemo{x}"``.

Quotes need not be paired: a word that is not a file name does no harm.
"""
_GUIDES = re.compile(
    rb"""(?:\bLD|DYLD(?:_FALLBACK)?)_LIBRARY_PATH(?:["']?\]?|["'],[^\n]{0,500}\))\s*[=:]"""
)
"""``env["LD_LIBRARY_PATH"] = ...``, ``{"LD_LIBRARY_PATH": ...}``, and a shell's assignment."""
_TESTS = re.compile(rb"""\b(?:exists|isfile)\((?:[\w.]*join\()?[^()\n]*\)""")
"""Tests for a file: netCDF4 tests for plugins/__nczhdf5filters.dll, and opens none of the plugins.
Code that opens a file after this test names the file again, or stored its name before.
"""
_LOADS = re.compile(
    rb"""\b(?:spec_from_file_location|ExtensionFileLoader)\(\s*["']([\w.]{1,128})["']"""
)
"""Imports under another name: PyNvVideoCodec loads PyNvVideoCodec_121.so or PyNvVideoCodec_130.so
as ``_PyNvVideoCodec``.
"""
_COMPUTED = re.compile(rb"""["'/\\]([\w+.-]{4,128}(?:\{[^{}"'\n]{0,80}\}|%\w)[\w+.-]{0,128})["']""")
"""A name that code completes: ``f"libdemo_{x}.so"``, ``"libdemo_%s.so"``."""
_HOLE = re.compile(r"\{.*\}|%\w")
_TAGGED = re.compile(r"\.(?:cpython-\d|cp\d\d|abi3|pypy\d|graalpy\d)[\w-]*\.(?:so|pyd)$")
_LIBRARY = re.compile(r"(?i)\.(?:so|dylib|dll|pyd|exe)(?:\.|$)")
_OPENING = (
    *(b"LoadLibrary", b"CDLL", b"WinDLL", b"OleDLL", b"PyDLL", b"dlopen", b"load_library"),
    *(b"spec_from_file_location", b"ExtensionFileLoader"),
)


def opens_files(content: bytes) -> bool:
    """Return whether code mentions a function that opens libraries or modules by path."""
    return any(word in content for word in _OPENING)


class NamedFiles(NamedTuple):
    """Paths of files in a package, by how code names them; see ``CodeNames``."""

    named: frozenset[str]
    completed: frozenset[str]
    assembled: frozenset[str]
    guided: frozenset[str]
    modules: frozenset[str]  # names of modules, not paths


class FileNames:
    """The names of some files, shared by many searches."""

    def __init__(self, candidates: Mapping[str, Iterable[str]]) -> None:
        """``candidates`` maps a path to all names of the file, such as file name and soname."""
        self.whole: dict[str, set[str]] = {}
        self.stems: dict[bytes, set[str]] = {}
        for path, names in candidates.items():
            for name in names:
                self.whole.setdefault(name, set()).add(path)
                for spelled in iter_stems(name):
                    self.stems.setdefault(spelled.encode(), set()).add(path)
        self._few = tuple(self.stems) if len(self.stems) <= _FEW else ()

    def may_be_in(self, content: bytes) -> bool:
        """Return whether code may contain one of the names; return True if there are many names."""
        return any(name in content for name in self._few) if self._few else bool(self.stems)

    def complete(self, pattern: str, folders: Collection[str]) -> Iterator[str]:
        """Yield the files that match a name completed by code.

        ``folders`` are the folders that the code names or is in; files elsewhere do not match.
        """
        for name in self.whole:
            for path in self.whole[name] if fnmatchcase(name, pattern) else ():
                if all(folder in folders for folder in path.split("/")[:-1]):
                    yield path


class NameSearch:
    """Searches sources for the names of some files."""

    def __init__(self, names: FileNames) -> None:
        self._names = names
        self._named: set[str] = set()
        # Files, by words that count only in sources that load libraries.
        self._hinted: set[str] = set()
        self._opens = False
        self._guided: set[str] = set()
        self._completed: set[str] = set()
        self._assembled: set[str] = set()
        self._modules: set[str] = set()

    def see(self, path: str, content: bytes) -> None:
        """Search one source, which has that path."""
        opens = opens_files(content)
        if not opens and not self._names.may_be_in(content):
            return
        whole, stems = self._names.whole, self._names.stems
        words = _list_words(content)
        if not stems.keys().isdisjoint(words):
            words = _list_words(_TESTS.sub(b"", content))
        spelled = stems.keys() & words
        found = {path for word in spelled for path in stems[word]}
        self._named |= {path for word in spelled for path in whole.get(word.decode(), ())}
        self._hinted |= found
        if found and _GUIDES.search(content):
            self._guided |= found
        if opens:
            self._opens = True
            self._modules.update(name.decode() for name in _LOADS.findall(content))
        folders = {word.decode() for word in words}.union(path.split("/"))
        for name in set(_COMPUTED.findall(content)):
            pattern = _HOLE.sub("*", name.decode("ascii", "replace"))
            if not opens and not _LIBRARY.search(pattern):
                continue
            completed = set(self._names.complete(pattern, folders))
            self._assembled |= completed
            if opens:
                self._completed |= completed

    def conclude(self) -> NamedFiles:
        """Return the files that the sources name."""
        return NamedFiles(
            named=frozenset(self._named | self._hinted if self._opens else self._named),
            completed=frozenset(self._completed),
            assembled=frozenset(self._assembled),
            guided=frozenset(self._guided),
            modules=frozenset(self._modules),
        )


def find_spelled(names: FileNames, path: str, content: bytes) -> frozenset[str]:
    """Return the files that one source names, or whose names it completes."""
    search = NameSearch(names)
    search.see(path, content)
    found = search.conclude()
    return found.named | found.completed


def _list_words(content: bytes) -> set[bytes]:
    words = set(_QUOTED.findall(content))
    return words | {word.rstrip(b".") for word in words}  # also the word in "libdemo.%s"


def iter_stems(name: str) -> Iterator[str]:
    """Yield all forms in which code may write a library's name without the system's suffix.

    ``libdemo.so.1``, ``libdemo`` and ``demo`` name the same library, as do ``_demo.abi3.so`` and
    ``_demo``.
    """
    yield name
    if tagged := _TAGGED.search(name):
        yield name[: tagged.start()]
        return
    stem = _LIBRARY.split(name, maxsplit=1)[0]
    for each in dict.fromkeys((stem, name.partition(".")[0])):
        if each:
            yield each
            yield each.removeprefix("lib") or each


# Words of Python code: the modules it imports, and whether it may load libraries.

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
"""Whole words only: PYTHONPATH is not PATH."""
_EVERYWHERE = b"RTLD_GLOBAL"
_KEYWORD = b"import"
_FARTHEST = 512  # bytes of a line that precede the keyword
_STATEMENT = re.compile(
    rb"""[ \t]*(?:import[ \t]+([\w., \t]{1,999})|from[ \t]+(\w[\w.]{0,250})[ \t]+import\b"""
    rb"""[ \t]*(?:\(([\w, \t\r\n]{1,999})|([\w, \t]{1,999}))?)"""
)
"""An import statement from the start of its line."""
_CALL = re.compile(rb"""(?<!\w)(?:import_module|__import__)\(\s*["'](\w[\w.]{0,250})["']""")


class LoadingWords(NamedTuple):
    """Imports and library loading in all sources of a package."""

    imports: frozenset[str]  # full names of modules
    loading: str  # "ctypes in demo/__init__.py"; "" if no word suggests that libraries are loaded
    everywhere: bool  # whether a source mentions RTLD_GLOBAL


def _list_names(text: bytes) -> Iterator[bytes]:
    """Yield the names in ``first, second as name``."""
    yield from (each.split()[0] for each in text.split(b",") if each.split())


def _list_imports(content: bytes) -> Iterator[bytes]:
    """Yield the modules in import statements, and in calls with a literal name.

    Lines without the word "import" are skipped at once.
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
                # "from nvidia import cublas": each name may be a module
                yield from (module + b"." + each for each in _list_names(inner or plain))
        called = _CALL.match(content, place) or _CALL.match(content, max(place - 2, 0))
        if called is not None:
            yield called[1]
        after = max(place + len(_KEYWORD), statement.end() if statement is not None else 0)
        place = content.find(_KEYWORD, after)


def read_words(sources: Iterable[tuple[str, bytes]]) -> LoadingWords:
    """Read the imports and words of sources; the sources are sorted by path."""
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
