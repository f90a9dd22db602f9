"""Object files that are named in the package's own code, found by searching the code's text."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from binary_checks.errors import TooLarge
from binary_checks.python_code.dll_directories import OPENING
from binary_checks.python_code.parsing import LeftAloneError, ParsingBudget, parse

_LONGEST_NAME = 128  # characters of a name
# names that are searched one by one; if there are more, all words of a text are looked up
_FEW = 24
# comparisons of file names with patterns, which are names that code completes
_MOST_COMPARED = 4_000_000
_QUOTED = re.compile(rb"""["'/\\=]([\w+.-]{1,128})(?=["'{%/\\]|$)""", re.MULTILINE)
"""A word that ends a path or a string, or that code continues: ``"libdemo"``, ``f"libdemo{x}"``.

Quotes need not be paired: a word that is not a file name does no harm.
"""
_GUIDES = re.compile(
    rb"""(?:\bLD|DYLD(?:_FALLBACK)?)_LIBRARY_PATH(?:["']?\]?|["'],[^\n]{0,500}\))\s*[=:]"""
)
"""``env["LD_LIBRARY_PATH"] = ...``, ``{"LD_LIBRARY_PATH": ...}``, and a shell's assignment."""
_GUIDING = b"LIBRARY_PATH"
_TESTS = re.compile(rb"""\b(?:exists|isfile)\((?:[\w.]*join\()?[^()\n]*\)""")
"""Tests for a file: netCDF4 tests for plugins/__nczhdf5filters.dll, and opens none of the plugins.
Code that opens a file after this test names the file again, or stored its name before.
"""
_TESTING = (b"exists(", b"isfile(")
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
        self._left = _MOST_COMPARED
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
        Raises TooLarge.
        """
        self.pay(sum(map(len, self.whole.values())))
        for name in self.whole:
            for path in self.whole[name] if fnmatchcase(name, pattern) else ():
                if all(folder in folders for folder in path.split("/")[:-1]):
                    yield path

    def pay(self, count: int) -> None:
        """Count comparisons of file names with patterns. Raises TooLarge if there are too many."""
        self._left -= count
        if self._left < 0:
            raise TooLarge("its own code builds too many file names")


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
        """Search one source, which has that path. Raises TooLarge."""
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


def _list_words(content: bytes) -> set[bytes]:
    words = set(_QUOTED.findall(content))
    # the word in "libdemo.%s"
    return words | {word.rstrip(b".") for word in words if word.endswith(b".")}


def iter_stems(name: str) -> Iterator[str]:
    """Yield all forms in which code may write a library's name without the system's suffix.

    ``libdemo.so.1``, ``libdemo`` and ``demo`` name the same library, as do ``_demo.abi3.so`` and
    ``_demo``.
    """
    if len(name) > _LONGEST_NAME:
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


# Extension modules that a package imports only under ``try``.

_CAUGHT = frozenset({"ImportError", "Exception", "BaseException"})
"""Exceptions that a failed load raises, and their base classes; not ModuleNotFoundError."""
_LONGEST_SOURCE = 512 << 10  # bytes of a source that is parsed
_LEAST_COST, _COST = 16_000_000, 16
"""The cost that all sources may cause: a constant, and a factor for each byte of the package; cupy
costs 80 million.
"""
_STEP = 16  # cost of visiting a node


class TriedImports:
    """Searches sources for import statements of certain modules."""

    def __init__(self, modules: frozenset[str], size: int = 0) -> None:
        """``modules`` are full names, ``demo.core._fast``.

        ``size`` is the size of the package in bytes.
        """
        self._modules = modules
        stems = sorted({module.rpartition(".")[2] for module in modules})
        words = b"|".join(re.escape(stem.encode()) for stem in stems)
        self._mentioned = re.compile(rb"\b(?:" + words + rb")\b")
        self._tried: set[str] = set()
        self._demanded: set[str] = set()
        self._budget = ParsingBudget(_LEAST_COST + _COST * size)

    def see(self, path: str, content: bytes) -> None:
        """Search one source; the path is relative to site-packages."""
        if b"import" not in content:
            return
        stems = {name.decode() for name in set(self._mentioned.findall(content))}
        named = {each for each in self._modules if each.rpartition(".")[2] in stems}
        if not named:
            return
        try:
            self._budget.pay(len(content))
            if len(content) > _LONGEST_SOURCE:
                raise LeftAloneError
            tree = parse(content, self._budget)
            imports = list(_list_tried_imports(tree, path.split("/")[:-1], self._budget))
            self._budget.pay(len(imports) * len(named))
        except LeftAloneError:
            self._demanded |= named
            return
        for name, guarded in imports:
            found = {each for each in named if f"{name}.".startswith(f"{each}.")}
            (self._tried if guarded else self._demanded).update(found)

    def conclude(self) -> frozenset[str]:
        """Return the modules for which every import statement catches a failure."""
        return frozenset(self._tried - self._demanded)


def _list_tried_imports(
    tree: ast.AST, package: list[str], budget: ParsingBudget
) -> Iterator[tuple[str, bool]]:
    """Yield the full name of every import, and whether the code continues if the import fails.

    ``importlib.import_module("demo._fast")`` imports the module that its argument names.
    """
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        budget.pay(_STEP)
        item, guarded = waiting.pop()
        if isinstance(item, ast.Import):
            yield from ((alias.name, guarded) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            above = package[: len(package) - item.level + 1] if item.level else []
            parts = [*above, *filter(None, [item.module])]
            yield from ((".".join([*parts, alias.name]), guarded) for alias in item.names)
            yield ".".join(parts), guarded
        elif isinstance(item, ast.Call) and _is_import(item.func):
            texts = (each.value for each in item.args if isinstance(each, ast.Constant))
            for text in texts:
                if isinstance(text, str):
                    relative = text.startswith(".")
                    yield ".".join([*package, text[1:]]) if relative else text, guarded
        inner = isinstance(item, ast.Try) and any(map(_goes_on, item.handlers))
        for field, part in ast.iter_fields(item):
            within = guarded or (inner and field == "body")
            nodes = part if isinstance(part, list) else [part]
            waiting += [(each, within) for each in nodes if isinstance(each, ast.AST)]


def _is_import(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else ""
    name = function.id if isinstance(function, ast.Name) else name
    return name in {"import_module", "__import__"}


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches a failed import, and raises nothing."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
    caught = handler.type is None or not _CAUGHT.isdisjoint(names)
    return caught and not any(isinstance(each, ast.Raise) for each in ast.walk(handler))


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
