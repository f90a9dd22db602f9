"""Folders that a package's Python code adds to Windows' search for DLLs, and DLLs that it opens."""

from __future__ import annotations

import ast
import builtins
import ntpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from binary_checks.errors import BrokenDataError, PackageError
from binary_checks.python_code.bound_names import BoundNames
from binary_checks.python_code.parsing import LeftAloneError, ParsingBudget, parse
from binary_checks.python_code.path_evaluation import (
    SOMETHING,
    UNKNOWN,
    Folder,
    Places,
    Texts,
    relative,
)

# Files that mention the loading of DLLs.

_LONGEST_MENTION = 32  # bytes of a mention
_SUFFIXES = (".py", ".pth")
_TESTS = frozenset({"test", "tests", "testing", "conftest.py"})  # files that users never import


class Mention:
    """A search for a certain kind of statement; regular expressions are compiled on first use."""

    def __init__(self, *hints: bytes, pattern: bytes) -> None:
        """Search for the short ``pattern``; each match contains one of the ``hints``.

        Each hint begins with a literal letter, so that most code is skipped at once.
        """
        self._hints = hints
        self._pattern = pattern

    @cached_property
    def _searches(self) -> tuple[Callable[[bytes], object], ...]:
        return tuple(re.compile(hint).search for hint in self._hints)

    def is_in(self, code: bytes) -> bool:
        """Return whether a piece of code contains the mention."""
        hinted = any(search(code) for search in self._searches)
        return hinted and re.search(self._pattern, code) is not None

    def search(self) -> Callable[[bytes], bool]:
        """Return a function that takes code in pieces, and returns whether it has found a match."""
        found, tail = False, b""

        def take(piece: bytes) -> bool:
            nonlocal found, tail
            code = tail + piece
            found, tail = found or self.is_in(code), code[-_LONGEST_MENTION:]
            return found

        return take


_ADDING_WORDS = rb"add_dll_directory|AddDllDirectory"
ADDING = Mention(rb"d(?:_dll_directory|DllDirectory)", pattern=_ADDING_WORDS)
LOADING = Mention(
    rb"d(?:lopen|Library|_library|_dll_directory|DllDirectory)",
    rb"DLL",
    pattern=_ADDING_WORDS + rb"|LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library",
)
OPENING = Mention(
    rb"d(?:lopen|Library|_library)",
    rb"DLL",
    rb"spec_from_file_location",
    rb"ExtensionFileLoader",
    pattern=rb"LoadLibrary|(?:C|Win|Ole|Py)DLL|dlopen|load_library|spec_from_f|ExtensionFileL",
)


class MentionSearch:
    """Searches members for a mention while they are streamed, on several threads."""

    def __init__(self, mention: Mention, is_searched: Callable[[str], bool]) -> None:
        self._mention = mention
        self._is_searched = is_searched
        self.found: set[str] = set()  # names of members

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        """Return a callback for the content of the named member, or None to skip the member."""
        if not self._is_searched(name):
            return None
        take = self._mention.search()

        def see(piece: bytes) -> None:
            if take(piece):
                self.found.add(name)

        return see


class SourceFile(NamedTuple):
    """A Python file whose content is read on demand."""

    path: str  # installed path
    size: int
    read: Callable[[], bytes]


class Opening(NamedTuple):
    """A call with which code opens files of its package."""

    source: str
    paths: tuple[str, ...]
    patterns: tuple[str, ...]  # patterns for names that are only known at run time
    tried: bool  # whether the code continues if the call fails
    late: bool  # whether no import executes the call


class Openings(NamedTuple):
    """The files that a package's code opens."""

    calls: tuple[Opening, ...]
    left: tuple[str, ...]  # sources that were not completely followed


class DllLoading(NamedTuple):
    """The folders and DLLs that a package's code makes Windows load; see ``Package``."""

    dll_directories: tuple[str, ...] = ()
    loading_code: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()

    def placed(self, place: Callable[[str], str]) -> DllLoading:
        """Return a copy in which ``place`` has converted the paths.

        The original paths are relative to site-packages.
        """
        return DllLoading(*(tuple(map(place, paths)) for paths in self))


def is_source(path: str) -> bool:
    """Return whether a file is Python code that users' processes may run."""
    return path.endswith(_SUFFIXES) and _TESTS.isdisjoint(path.split("/"))


# Analysis of the files.

# bytes of a source that is parsed, which takes up to 1000 times as much memory
_LONGEST_SOURCE = 192 << 10
_MOST_BYTES = 2 << 20  # bytes of all sources of a package
_MOST_FILES = 400
_MOST_COST = 30_000_000  # cost of all sources of a package; torch 2.15 costs 25 million

_ADDS = frozenset({"add_dll_directory", "AddDllDirectory"})
_LIBRARY = "LoadLibrary LoadLibraryA LoadLibraryW LoadLibraryEx LoadLibraryExA LoadLibraryExW"
_OPENS = frozenset({"CDLL", "WinDLL", "OleDLL", "PyDLL", "dlopen", *_LIBRARY.split()})
# functions with the arguments name and path
_IMPORTS = frozenset({"spec_from_file_location", "ExtensionFileLoader"})
# the name of a function of torch.ops, and of many objects whose function opens no file
_MAY_OPEN = "load_library"


class _Found(NamedTuple):
    added: Texts
    opened: Texts


def find_loading(sources: Iterable[SourceFile], paths: Iterable[str]) -> DllLoading:
    """Find the folders and DLLs that sources make Windows load, within the budget.

    Begin with the sources of the outermost packages.

    ``paths`` are the paths of all files in the package.
    """
    budget = ParsingBudget(_MOST_COST)
    places = Places(paths, budget)
    found: dict[str, _Found | None] = {}
    for source, fits in choose_followed(sources):
        found[source.path] = _follow(source, places, budget) if fits else None
    followed = [each for each in found.values() if each is not None]
    added = {relative(text) for each in followed for text in each.added if UNKNOWN not in text}
    opened = {places.file(text) for each in followed for text in each.opened if UNKNOWN not in text}
    directories = {path for path in added if path is not None}
    deciding = (path for path, each in found.items() if _decides(each, directories))
    preloaded = {path for path in opened if path is not None}
    return DllLoading(tuple(sorted(directories)), tuple(sorted(deciding)), tuple(sorted(preloaded)))


def find_openings(
    sources: Iterable[SourceFile], paths: Iterable[str], called: Iterable[str] = ()
) -> Openings:
    """Find the calls that open files of the package.

    ``paths`` are the paths of all files in the package; ``called`` are names of functions that
    other modules of the package call when they are imported.
    """
    budget = ParsingBudget(_MOST_COST)
    places, called = Places(paths, budget), frozenset(called)
    calls, left = list[Opening](), list[str]()
    for source, fits in choose_followed(sources):
        try:
            if not fits:
                raise LeftAloneError
            calls += _list_openings(source, places, budget, called)
        except (LeftAloneError, BrokenDataError, PackageError):
            left.append(source.path)
    return Openings(tuple(calls), tuple(left))


def _list_openings(
    source: SourceFile, places: Places, budget: ParsingBudget, called: frozenset[str]
) -> Iterator[Opening]:
    budget.pay(source.size)
    tree = parse(_read(source), budget)
    names, spared = BoundNames(tree, budget), find_spared_calls(tree, budget, called)
    folder = Folder(source.path, names, places, budget)
    for name, texts, call in _list_loads(names, folder):
        known = (places.file(text) for text in texts if UNKNOWN not in text)
        if call is not None and name not in _ADDS:
            yield Opening(
                source.path,
                tuple(sorted(filter(None, known))),
                tuple(sorted(_list_patterns(texts))),
                tried=call in spared.tried,
                late=call in spared.late,
            )


def choose_followed(sources: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, bool]]:
    """Yield each source in order, and whether to follow it; a source not followed is not read."""
    total = 0
    in_turn = sorted(sources, key=lambda each: (each.path.count("/"), each.path))
    for number, source in enumerate(in_turn):
        fits = source.size <= _LONGEST_SOURCE and total + source.size <= _MOST_BYTES
        fits = fits and number < _MOST_FILES
        total += source.size if fits else 0
        yield source, fits


def _follow(source: SourceFile, places: Places, budget: ParsingBudget) -> _Found | None:
    """Return the folders that a file adds and the files it opens, or None if it is not followed."""
    try:
        budget.pay(source.size)
        tree = parse(_read(source), budget)
        names = BoundNames(tree, budget)
        folder = Folder(source.path, names, places, budget)
        added, opened = set[str](), set[str]()
        for name, texts, _ in _list_loads(names, folder):
            if name in _ADDS:
                added |= texts
            else:
                opened |= {text for text in texts if name != _MAY_OPEN or UNKNOWN not in text}
    except (LeftAloneError, BrokenDataError, PackageError):
        return None
    return _Found(frozenset(added), frozenset(opened))


def _list_patterns(texts: Iterable[str]) -> set[str]:
    return set(filter(None, (_format_pattern(text) for text in texts if UNKNOWN in text)))


def _format_pattern(text: str) -> str:
    """Return a partly known path as a pattern: ``demo/libdemo_*.so``, ``*/libdemo.so``, ``*``.

    Partial names without a folder, and folders outside of the package, belong to the system.
    """
    folder, name = ntpath.split(text)
    if UNKNOWN in folder or text == UNKNOWN:
        return text.replace("\\", "/").replace(UNKNOWN, "*")
    place = relative(folder)
    return f"{place}/{name.replace(UNKNOWN, '*')}" if place else ""


def _read(source: SourceFile) -> bytes:
    content = source.read()
    if not source.path.endswith(".pth"):
        return content
    # Of a .pth file, Python executes only these lines.
    return b"\n".join(line for line in content.splitlines() if line.startswith(b"import"))


def _list_loads(names: BoundNames, folder: Folder) -> Iterator[tuple[str, Texts, ast.Call | None]]:
    """Yield the name, argument and node of each call that loads a file.

    If code uses such a function in another way, yield an unknown argument and no node.
    """
    for node, scope in names.calls:
        name = folder.full_name(node.func, scope).rpartition(".")[2]
        given = (*node.args, *(each.value for each in node.keywords))
        if name in {*_ADDS, *_OPENS, _MAY_OPEN} and given:
            yield name, folder.fold(given[0], scope), node
        elif name in _IMPORTS and len(given) > 1:
            yield _MAY_OPEN, folder.fold(given[1], scope), node
        elif name == "getattr":
            names_of = (each.value for each in given if isinstance(each, ast.Constant))
            yield from ((each, SOMETHING, None) for each in names_of if each in _ADDS | _OPENS)
    for each in names.named:
        name = each.attr if isinstance(each, ast.Attribute) else each.id
        if name in _ADDS | _OPENS and each not in names.used:
            yield name, SOMETHING, None


def _decides(found: _Found | None, directories: set[str]) -> bool:
    """Return whether only running the file would show which folders it adds or files it opens."""
    if found is None or any(UNKNOWN in text for text in found.added):
        return True
    folders = {ntpath.dirname(text) for text in found.opened if UNKNOWN in text}
    return any(UNKNOWN in each or relative(each) not in directories for each in folders)


# Calls that may fail or run late, judged by the code around them.

_CAUGHT = frozenset({"OSError", "WindowsError", "EnvironmentError", "Exception", "BaseException"})
"""Exceptions that ctypes raises for a library that does not load, and their base classes."""
_OF_SYSTEM = frozenset({"sys", "os", "platform", "environ", "getenv", "TYPE_CHECKING"})
_EXIST = frozenset({"exists", "isfile", "is_file"})
_STEP = 4  # cost of visiting a node
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class SparedCalls(NamedTuple):
    """Calls that may fail without stopping an import."""

    tried: frozenset[ast.Call]  # the code around the calls catches the failure and continues
    # the calls are in functions that no import calls, or under a condition
    late: frozenset[ast.Call]


class _Context(NamedTuple):
    """The context of a piece of code."""

    functions: tuple[str, ...] = ()
    tried: bool = False
    chosen: bool = False  # whether the code is under a condition that is not evaluated


def find_spared_calls(
    tree: ast.Module, budget: ParsingBudget, called: Iterable[str] = ()
) -> SparedCalls:
    """Find the calls in a file that may fail without stopping an import.

    Raises LeftAloneError if the walk over the file would cost too much.

    ``called`` are names of functions that other modules call when they are imported.
    """
    calls: dict[ast.Call, _Context] = {}
    left: list[tuple[ast.AST, _Context]] = [(tree, _Context())]
    while left:
        node, context = left.pop()
        if isinstance(node, ast.Call):
            calls[node] = context
        if isinstance(node, _FUNCTIONS):
            context = _Context(functions=(*context.functions, getattr(node, "name", "")))
        guards = isinstance(node, ast.Try) and any(_goes_on(each, budget) for each in node.handlers)
        guards = guards or _is_suppressing(node)
        chooses = isinstance(node, ast.If) and not _is_of_system(node.test, budget)
        for field, part in ast.iter_fields(node):
            within = context._replace(tried=True) if guards and field == "body" else context
            within = within._replace(chosen=True) if chooses and field != "test" else within
            parts = part if isinstance(part, list) else [part]
            budget.pay(_STEP * len(parts))
            left += [(each, within) for each in parts if isinstance(each, ast.AST)]
    callers = _find_called(calls, called, budget)
    known = {
        call: [callers[name] for name in context.functions if name in callers]
        for call, context in calls.items()
    }
    return SparedCalls(
        frozenset(
            call
            for call, context in calls.items()
            if context.tried or (known[call] and all(known[call]))
        ),
        frozenset(
            call
            for call, context in calls.items()
            if context.chosen or (context.functions and not known[call])
        ),
    )


def _find_called(
    calls: Mapping[ast.Call, _Context], called: Iterable[str], budget: ParsingBudget
) -> dict[str, bool]:
    """Return the names of functions that an import calls.

    The value is True if the code continues after a failure, wherever the function is called.
    """
    found, before = dict.fromkeys(called, False), {"": False}
    while found != before:
        before = dict(found)
        budget.pay(_STEP * len(calls))
        for call, context in calls.items():
            enclosing = [found[name] for name in context.functions if name in found]
            if not context.chosen and (enclosing or not context.functions):
                tried = context.tried or (bool(enclosing) and all(enclosing))
                name = _name_of(call.func)
                found[name] = found.get(name, True) and tried
    return found


def _goes_on(handler: ast.ExceptHandler, budget: ParsingBudget) -> bool:
    """Return whether a handler catches a failed load, and neither raises nor loads another library.

    The package may define the exception: xformers raises xFormersInvalidLibException, and catches
    it.
    """
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {_name_of(kind) for kind in kinds if kind is not None}
    own = any(_is_own(kind) for kind in kinds if kind is not None)
    if handler.type is not None and not own and _CAUGHT.isdisjoint(names):
        return False
    for node in ast.walk(handler):
        budget.pay(_STEP)  # the handlers around this one count the cost again
        if _tries_again(node):
            return False
    return True


def _is_own(kind: ast.expr) -> bool:
    """Return whether an exception may be the package's own, rather than Python's."""
    name, module = _name_of(kind), kind.value if isinstance(kind, ast.Attribute) else None
    if not name or hasattr(builtins, name):
        return False
    return module is None or _name_of(module) not in sys.stdlib_module_names


def _tries_again(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = _name_of(node.func).lower()
        return "load" in name or "dll" in name or name in {"dlopen", "exit"}
    return isinstance(node, ast.Raise)


def _is_suppressing(node: ast.AST) -> bool:
    """Return whether a statement is ``with contextlib.suppress(OSError)``."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    calls = [item.context_expr for item in items if isinstance(item.context_expr, ast.Call)]
    return any(
        _name_of(call.func) == "suppress" and not _CAUGHT.isdisjoint(map(_name_of, call.args))
        for call in calls
    )


def _is_of_system(test: ast.expr, budget: ParsingBudget) -> bool:
    """Return whether a condition tests the system, an environment variable, or a file.

    lightgbm opens its library unless ``environ.get("LIGHTGBM_BUILD_DOC", "False") == "True"``.
    """
    if isinstance(test, ast.Call) and _name_of(test.func) in _EXIST:
        return True
    names = set[str]()
    for node in ast.walk(test):
        budget.pay(_STEP)
        names.add(node.id if isinstance(node, ast.Name) else "")
    return names <= {"", *_OF_SYSTEM}


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
