"""Follows one process that imports a module: what it loads, in the order of execution.

No code is run. What is loaded under a condition that nothing tells counts only if it is loaded
otherwise too; what is tried is taken to succeed, as what a package requires is there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from binary_checks.python_code.conditions import decide, decide_unset
from binary_checks.python_code.own_modules import OwnModules, SourceModule
from binary_checks.python_code.possible_texts import UNKNOWN
from binary_checks.python_code.scopes import Function, PythonScope
from binary_checks.python_code.survived_failures import goes_on, is_suppressing

_MOST_MODULES = 120  # that one import executes
_DEEPEST = 40  # modules and functions in one another
_BY_NAME_AND_PATH = frozenset({"spec_from_file_location", "ExtensionFileLoader"})
_OPENS = frozenset(
    {"CDLL", "PyDLL", "WinDLL", "LoadLibrary", "dlopen", "load_library", *_BY_NAME_AND_PATH}
)
_IMPORTS = frozenset({"importlib.import_module", "builtins.__import__"})
_EXIST = frozenset({"os.path.exists", "os.path.isfile"})
_PATH_EXISTS = frozenset({"exists", "is_file"})
_SHORTEST = 4  # characters with which a pattern begins
_CODE_FOR_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Load(NamedTuple):
    """One thing that was loaded: a module of another distribution, or a file of this one."""

    module: str = ""
    path: str = ""  # from site-packages
    everywhere: bool = False  # with RTLD_GLOBAL: all that comes later sees its symbols


@dataclass(slots=True)
class _State:
    """What was executed and loaded up to some point."""

    loads: dict[Load, None] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    everywhere: bool = False  # what sys.setdlopenflags says
    opened: dict[str, bool] = field(default_factory=dict)  # path -> whether it goes on without it

    def copy(self) -> _State:
        return _State(dict(self.loads), set(self.modules), self.everywhere, dict(self.opened))

    def keep_common(self, other: _State) -> None:
        both = self.opened.keys() & other.opened.keys()
        self.opened = {path: self.opened[path] and other.opened[path] for path in sorted(both)}
        self.loads = {load: None for load in self.loads if load in other.loads}
        self.modules &= other.modules
        self.everywhere &= other.everywhere


@dataclass(frozen=True, slots=True)
class _Frame:
    """A function that is being executed, and the call of it."""

    function: Function
    home: SourceModule
    call: ast.Call
    scope: PythonScope
    caller: SourceModule


class Execution:
    """One process that imports one module."""

    def __init__(
        self, modules: OwnModules, libraries: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """``libraries``: the package's object files by all that code may write for them."""
        self._modules = modules
        self._libraries = libraries or {}
        self._frames: list[_Frame] = []
        self.followed = True  # no module of the package's own was passed over
        self._guards = 0  # statements around that catch a failed load and go on
        self.state = _State()
        self.before: dict[str, tuple[Load, ...]] = {}  # by path: what was loaded when it was
        self._active: set[ast.AST] = set()
        self._returns: list[_State] = []  # where the function that is executed may end

    def import_name(self, name: str) -> None:
        """Import a module after the packages that it lies in."""
        if not self._modules.is_own(name):
            if name:
                self.state.loads.setdefault(Load(module=name))
            return
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            self._import_one(".".join(parts[:count]))

    def _import_one(self, name: str) -> None:
        path = self._modules.extension(name)
        if path is not None:
            self._load(path, everywhere=self.state.everywhere)
        if name in self.state.modules or len(self.state.modules) >= _MOST_MODULES:
            return
        self.state.modules.add(name)
        source = self._modules.source(name) if path is None else None
        self.followed = self.followed and not self._modules.is_passed_over(name)
        if source is not None and len(self._active) < _DEEPEST:
            self._active.add(source.tree)
            self._execute(source.tree.body, source)
            self._active.discard(source.tree)

    def _load(self, path: str, *, everywhere: bool) -> None:
        self._modules.pay(len(self.state.loads))
        if any(load.path == path for load in self.state.loads):
            return
        before = tuple(self.state.loads)
        if path in self.before:  # of two branches either may have loaded it
            before = tuple(load for load in self.before[path] if load in self.state.loads)
        self.before[path] = before
        self.state.loads[Load(path=path, everywhere=everywhere)] = None

    def _execute(self, body: Sequence[ast.stmt], source: SourceModule) -> bool:
        """Execute statements in turn; whether they end what they are part of."""
        for statement in body:
            self._modules.pay()
            if self._execute_one(statement, source):
                return True
        return False

    def _execute_one(self, node: ast.stmt, source: SourceModule) -> bool:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, source)
        elif isinstance(node, ast.If):
            return self._choose(node, source)
        elif isinstance(node, ast.Try):
            return self._try(node, source)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)):
            self._call_all(_heads(node), source)
            ended = self._execute_guarded(node.body, source, guarded=is_suppressing(node))
            return ended and isinstance(node, (ast.With, ast.AsyncWith))
        elif isinstance(node, ast.ClassDef):
            self._execute(node.body, source)
        elif not isinstance(node, _CODE_FOR_LATER):
            self._call_all([node], source)
            if isinstance(node, ast.Return):
                self._modules.pay(len(self.state.loads) + len(self.state.modules))
                self._returns.append(self.state.copy())
            return isinstance(node, (ast.Return, ast.Raise))
        return False

    def _choose(self, node: ast.If, source: SourceModule) -> bool:
        self._call_all([node.test], source)
        decided = decide(node.test, self._modules.system, lambda call: self._exists(call, source))
        if decided is None:
            decided = decide_unset(node.test)
        if decided is not None:
            return self._execute(node.body if decided else node.orelse, source)
        other = self._fork(node.orelse, source)
        ended = self._execute(node.body, source)
        if other is None or ended:
            self.state = other or self.state
            return other is None and ended
        self.state.keep_common(other)
        return False

    def _exists(self, call: ast.Call, source: SourceModule) -> bool | None:
        """Whether code asks for a file that the package may have; None where for none."""
        scope, function = source.scopes.get(call), call.func
        if scope is None or not isinstance(function, ast.Attribute):
            return None
        named = source.folder.full_name(function, scope)
        asked = call.args[0] if named in _EXIST and call.args else function.value
        if named not in _EXIST and function.attr not in _PATH_EXISTS:
            return None
        texts = source.folder.fold(asked, scope)
        found = [self._modules.file(text) for text in texts]
        return True if any(found) else None

    def _fork(self, body: Sequence[ast.stmt], source: SourceModule) -> _State | None:
        """The state after these statements, which are only tried; None where they end all."""
        self._modules.pay(len(self.state.loads) + len(self.state.modules))
        kept, self.state = self.state, self.state.copy()
        ended = self._execute(body, source)
        other, self.state = self.state, kept
        return None if ended else other

    def _try(self, node: ast.Try, source: SourceModule) -> bool:
        """Execute what is tried as if nothing failed: what is required is there."""
        returns = len(self._returns)
        for handler in node.handlers:
            self._fork(handler.body, source)
        del self._returns[returns:]
        guarded = any(map(goes_on, node.handlers))
        ended = self._execute_guarded(node.body, source, guarded=guarded)
        ended = ended or self._execute(node.orelse, source)
        return self._execute(node.finalbody, source) or ended

    def _execute_guarded(
        self, body: Sequence[ast.stmt], source: SourceModule, *, guarded: bool
    ) -> bool:
        self._guards += guarded
        ended = self._execute(body, source)
        self._guards -= guarded
        return ended

    def _import(self, node: ast.Import | ast.ImportFrom, source: SourceModule) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.import_name(alias.name)
                if alias.asname:
                    source.names[alias.asname] = alias.name, ""
            return
        module = _resolve(source.package, node.level, node.module or "")
        self.import_name(module)
        for alias in node.names:
            inner = f"{module}.{alias.name}"
            is_module = self._modules.has(inner)
            if is_module:
                self.import_name(inner)
            source.names[alias.asname or alias.name] = (
                (inner, "") if is_module else (module, alias.name)
            )

    def _call_all(self, nodes: Iterable[ast.AST], source: SourceModule) -> None:
        for node in nodes:
            for each in _find_calls(node):
                self._call(each, source)

    def _call(self, node: ast.Call, source: SourceModule) -> None:
        scope = source.scopes.get(node)
        if scope is None:
            return
        name = source.folder.full_name(node.func, scope)
        last = name.rpartition(".")[2]
        if last in _OPENS and node.args:
            self._open(node, last, scope, source)
        elif last == "setdlopenflags":
            self.state.everywhere = _mentions_global(node.args)
        elif name in _IMPORTS and node.args:
            for text in source.folder.fold(node.args[0], scope):
                if UNKNOWN not in text:
                    level = len(text) - len(text.lstrip("."))
                    self.import_name(_resolve(source.package, level, text.lstrip(".")))
        else:
            self._call_function(node, scope, source)

    def _open(self, node: ast.Call, name: str, scope: PythonScope, source: SourceModule) -> None:
        place = 1 if name in _BY_NAME_AND_PATH else 0
        given = node.args[place] if len(node.args) > place else None
        everywhere = _mentions_global([*node.args[1:], *(each.value for each in node.keywords)])
        texts = sorted(source.folder.fold(given, scope))
        paths = [path for path in map(self._modules.file, texts) if path is not None]
        for path in paths:
            self._load(path, everywhere=everywhere)
        for path in paths or self._guess(given, scope, source):
            goes_on_without = self._guards > 0
            self.state.opened[path] = self.state.opened.get(path, True) and goes_on_without

    def _guess(self, given: ast.expr | None, scope: PythonScope, source: SourceModule) -> list[str]:
        """The package's objects that an opening means whose path only running it would tell.

        They are called what is given to the functions around it, torchvision's
        ``_load_library("_C_stable")``; else what these spell out, the innermost first, or what
        makes the path, as PyNvVideoCodec has a function for it; and else what their modules do
        outside of functions, as fbgemm_gpu has lists of names.
        """
        for words in self._list_words(given, scope, source):
            if found := {path for word in words for path in self._find_libraries(word)}:
                return sorted(found)
        return []

    def _find_libraries(self, word: str) -> Iterable[str]:
        """The objects that are called so, or like a pattern that says more than an ending."""
        if len(word.partition("*")[0]) < _SHORTEST or "*" not in word:
            return self._libraries.get(word, ())
        self._modules.pay(len(self._libraries))
        fitting = (name for name in self._libraries if fnmatchcase(name, word))
        return {path for name in fitting for path in self._libraries[name]}

    def _list_words(
        self, given: ast.expr | None, scope: PythonScope, source: SourceModule
    ) -> Iterator[Iterable[str]]:
        for frame in reversed(self._frames):
            arguments = (*frame.call.args, *(each.value for each in frame.call.keywords))
            folded = (frame.caller.folder.fold(each, frame.scope) for each in arguments)
            yield {text.rpartition("/")[2] for texts in folded for text in texts}
        for frame in reversed(self._frames):
            yield self._read_constants(frame.function.body)
        for call in _find_makers(given, scope):
            function, _ = self._find_function(call.func, scope, source)
            if function is not None:
                yield self._read_constants(function.body)
        homes = (*(frame.home for frame in reversed(self._frames)), source)
        callers = (frame.caller for frame in reversed(self._frames))
        for tree in dict.fromkeys(each.tree for each in (*homes, *callers)):
            yield self._read_constants(tree.body)

    def _read_constants(self, body: Iterable[ast.AST]) -> set[str]:
        """The texts in statements, without those of functions that they define."""
        words, left = set[str](), list(body)
        while left:
            node = left.pop()
            self._modules.pay()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value.rpartition("/")[2])
            elif isinstance(node, ast.JoinedStr):
                words.add("".join(_spell_part(part) for part in node.values).rpartition("/")[2])
                left.extend(node.values)
            elif not isinstance(node, _CODE_FOR_LATER):
                left.extend(ast.iter_child_nodes(node))
        return words

    def _call_function(self, node: ast.Call, scope: PythonScope, source: SourceModule) -> None:
        """Execute the body of a function of the package's own that is called by its name."""
        function, home = self._find_function(node.func, scope, source)
        if function is None or function in self._active or len(self._active) >= _DEEPEST:
            return
        self._active.add(function)
        self._frames.append(_Frame(function, home, node, scope, source))
        outer, self._returns = self._returns, []
        if not self._execute(function.body, home):
            self._returns.append(self.state)
        if self._returns:
            self.state, *others = self._returns
            for each in others:
                self.state.keep_common(each)
        self._returns = outer
        self._frames.pop()
        self._active.discard(function)

    def _find_function(
        self, node: ast.expr, scope: PythonScope, source: SourceModule
    ) -> tuple[Function | None, SourceModule]:
        if isinstance(node, ast.Name):
            for binding in scope.find(node.id):
                if isinstance(binding.value, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    return binding.value, source
            module, attribute = source.names.get(node.id, ("", ""))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, nothing = source.names.get(node.value.id, ("", ""))
            attribute = "" if nothing else node.attr
        else:
            return None, source
        home = self._modules.source(module) if module and attribute else None
        return (_top_function(home, attribute), home) if home is not None else (None, source)


def _spell_part(part: ast.expr) -> str:
    """A part of a formatted text: what it says, or a star for what only running it tells."""
    return str(part.value) if isinstance(part, ast.Constant) else "*"


def _find_makers(given: ast.expr | None, scope: PythonScope) -> list[ast.Call]:
    """The calls whose results are given, or bound to the name that is."""
    bound = scope.find(given.id) if isinstance(given, ast.Name) else []
    nodes = (given, *(binding.value for binding in bound))
    return [call for node in nodes if isinstance(node, ast.expr) for call in _find_calls(node)]


def _heads(node: ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith) -> list[ast.AST]:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in node.items]
    return [node.test if isinstance(node, ast.While) else node.iter]


def _find_calls(node: ast.AST) -> Iterable[ast.Call]:
    """The calls of an expression, inner ones first; nothing of what is only defined there."""
    found: list[ast.Call] = []
    left = [node]
    while left:
        each = left.pop()
        if isinstance(each, _CODE_FOR_LATER):
            continue
        if isinstance(each, ast.Call):
            found.append(each)
        left.extend(ast.iter_child_nodes(each))
    return reversed(found)


def _top_function(source: SourceModule, name: str) -> Function | None:
    functions = (each for each in source.tree.body if isinstance(each, ast.FunctionDef))
    return next((each for each in functions if each.name == name), None)


def _mentions_global(nodes: Iterable[ast.AST]) -> bool:
    inner = (each for node in nodes for each in ast.walk(node))
    return any("RTLD_GLOBAL" in (getattr(e, "attr", ""), getattr(e, "id", "")) for e in inner)


def _resolve(package: str, level: int, module: str) -> str:
    """The full name of what is imported, relative to a package if there is a level."""
    if not level:
        return module
    parts = package.split(".")
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, module] if module else base)
