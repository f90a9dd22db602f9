"""Computes calls in Python code: of the file's own functions, of Python's, of what loads DLLs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from binary_checks.packages.python_code import library, methods
from binary_checks.packages.python_code.expressions import Expressions
from binary_checks.packages.python_code.names import grows
from binary_checks.packages.python_code.places import Places, join
from binary_checks.packages.python_code.values import (
    FOREIGN,
    NONE,
    UNKNOWN,
    Dotted,
    Function,
    Items,
    Mark,
    Method,
    Scope,
    Values,
    combine,
    elements,
    gather,
    known,
    unite,
)

ADDS = frozenset({"add_dll_directory", "AddDllDirectory"})
_LIBRARY = "LoadLibrary LoadLibraryA LoadLibraryW LoadLibraryEx LoadLibraryExA LoadLibraryExW"
OPENS = frozenset({"CDLL", "WinDLL", "OleDLL", "PyDLL", "dlopen", *_LIBRARY.split()})
_MAY_OPEN = "load_library"  # torch.ops has such a function, and so have many that open nothing
_DEEPEST = 6  # calls of the file's own functions in one another
_OWN_FILE = frozenset({"inspect.getfile", "inspect.getsourcefile", "inspect.getabsfile"})
_FINDING = frozenset({"importlib.util.find_spec", "importlib.import_module"})
_IN_PACKAGE = frozenset({"importlib.resources.path", "pkg_resources.resource_filename"})

Keywords = Mapping[str, Values]


class Functions(Expressions):
    """The calls of one file, and what they have Windows look for."""

    def __init__(self, path: str, places: Places, steps: int) -> None:
        super().__init__(path, places, steps)
        self.added: Values = frozenset()  # what add_dll_directory is given
        self.opened: Values = frozenset()  # what CDLL, LoadLibrary, ... are given
        self.called: set[ast.AST] = set()
        self._running: list[ast.AST] = []

    def run(self, statements: Iterable[ast.stmt], scope: Scope) -> bool:
        """Follow a block; True where what stands behind it is not reached."""
        raise NotImplementedError

    def call(self, node: ast.Call, scope: Scope) -> Values:
        """What a call gives; one that loads something is noted."""
        arguments = self._read_arguments(node.args, scope)
        keywords = {each.arg: self.read(each.value, scope) for each in node.keywords if each.arg}
        if isinstance(node.func, ast.Attribute) and grows(node.func.attr) and arguments:
            return self._grow(node.func, arguments[-1], scope)
        callees = self.read(node.func, scope)
        if self._notes(_name_of(node.func, callees), callees, arguments, keywords):
            return UNKNOWN
        self._note_passed(arguments)
        found = unite(self._call_one(callee, arguments, keywords) for callee in callees)
        if found == UNKNOWN:
            self._lose(node.args, callees, scope)
        return found

    def _read_arguments(self, nodes: list[ast.expr], scope: Scope) -> tuple[Values, ...]:
        arguments: list[Values] = []
        for node in nodes:
            values = self.read(node, scope)
            if not isinstance(node, ast.Starred):
                arguments.append(values)
                continue
            spread = next(iter(values), None)
            if len(values) != 1 or not isinstance(spread, Items) or not spread.exact:
                return (*arguments, UNKNOWN)
            arguments.extend(spread.values)
        return tuple(arguments)

    def _grow(self, method: ast.Attribute, more: Values, scope: Scope) -> Values:
        self.read(method.value, scope)
        added = elements(more) if method.attr in {"extend", "update"} else more
        if added:
            self.grow(method.value, added, scope)
        return NONE

    def _notes(
        self, name: str, callees: Values, arguments: tuple[Values, ...], keywords: Keywords
    ) -> bool:
        """Note a call that adds a directory or opens a library, by whatever object."""
        if any(isinstance(callee, Function) for callee in callees):
            return False
        given = arguments or tuple(keywords.values())
        if name in ADDS and given:
            self.added |= self.settle(given[0])
        elif name in OPENS and given:
            self.opened |= self.settle(given[0])
        elif name == _MAY_OPEN and given:
            self.opened |= frozenset(each for each in given[0] if isinstance(each, str))
        return name in ADDS or name in OPENS

    def _note_passed(self, arguments: tuple[Values, ...]) -> None:
        """Whoever is given such a function calls it with what nobody here knows."""
        names = {_last(value) for values in arguments for value in values}
        self.added |= UNKNOWN if names & ADDS else frozenset()

    def _lose(self, arguments: list[ast.expr], callees: Values, scope: Scope) -> None:
        """A function that is not known may add anything to the lists that it is given."""
        if all(isinstance(callee, Dotted) for callee in callees):
            return
        for argument in arguments:
            if isinstance(argument, ast.Name) and self.find(argument.id, scope):
                self.grow(argument, UNKNOWN, scope)

    def _call_one(
        self, callee: object, arguments: tuple[Values, ...], keywords: Keywords
    ) -> Values:
        if isinstance(callee, Function):
            return self.enter(callee, arguments, keywords)
        if isinstance(callee, Method):
            settled = tuple(map(self.settle, arguments))
            return methods.call_method(callee, settled, self.places)
        if isinstance(callee, Dotted):
            return self._call_named(callee.name, arguments)
        return FOREIGN if callee is Mark.FOREIGN else UNKNOWN

    def _call_named(self, name: str, arguments: tuple[Values, ...]) -> Values:
        if name in {"builtins.map", "builtins.filter"} and len(arguments) == 2:
            return self._map(name, *arguments)
        if name == "builtins.getattr" and len(arguments) > 1:
            names = (each if isinstance(each, str) else "" for each in arguments[1])
            return unite(self.attribute(arguments[0], each) if each else UNKNOWN for each in names)
        found = self._call_about_modules(name, arguments)
        if found is None:
            settled = tuple(map(self.settle, arguments))
            found = library.call_library(name, settled, self.places)
        if found is not None:
            return found
        return UNKNOWN if self.is_library(name) else FOREIGN

    def _call_about_modules(self, name: str, arguments: tuple[Values, ...]) -> Values | None:
        if name in _OWN_FILE:
            return known(join(self.path))
        if name in _FINDING and arguments:
            return combine(lambda module: Dotted(name=str(module)), arguments[0])
        if name == "importlib.resources.files":
            return self._find_files(arguments[0] if arguments else known(self.package))
        if name in _IN_PACKAGE and len(arguments) > 1:
            calls = (
                Method(of=folder, name="joinpath") for folder in self._find_files(arguments[0])
            )
            found = (methods.call_method(c, arguments[1:], self.places) for c in calls)
            return unite(found)
        if name == "builtins.hasattr" and arguments[1:2] == (known("add_dll_directory"),):
            return known(True)
        return None

    def _map(self, name: str, callees: Values, lists: Values) -> Values:
        given = elements(lists)
        found = unite(self._call_one(callee, (given,), {}) for callee in callees)
        return gather(found if name == "builtins.map" else given)

    def _find_files(self, modules: Values) -> Values:
        """``importlib.resources.files``: the directory of a package, given by name or itself."""
        names = combine(lambda each: each.name if isinstance(each, Dotted) else each, modules)
        places = [
            self.attribute(
                known(Dotted(name=each)) if isinstance(each, str) else UNKNOWN, "__path__"
            )
            for each in names
        ]
        return (
            library.call_library("pathlib.Path", (elements(unite(places)),), self.places) or UNKNOWN
        )

    def enter(
        self,
        function: Function,
        arguments: tuple[Values, ...],
        keywords: Keywords,
        missing: Values = frozenset(),
    ) -> Values:
        """Follow a function of this file with these arguments."""
        node = function.node
        self.called.add(node)
        if node in self._running or len(self._running) >= _DEEPEST:
            return UNKNOWN
        scope = Scope(self._bind_arguments(function, arguments, keywords, missing), function.scope)
        self._running.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.read(node.body, scope)
            self.run(node.body, scope)
        finally:
            self._running.pop()
        if scope.yielded is not None:
            return gather(scope.yielded)
        return scope.returned or NONE

    def _bind_arguments(
        self,
        function: Function,
        arguments: tuple[Values, ...],
        keywords: Keywords,
        missing: Values,
    ) -> dict[str, Values]:
        about = function.node.args
        places = [each.arg for each in (*about.posonlyargs, *about.args)]
        names: dict[str, Values] = {}
        defaults = zip(reversed(places), reversed(about.defaults), strict=False)
        only = zip((each.arg for each in about.kwonlyargs), about.kw_defaults, strict=True)
        for name, default in (*defaults, *only):
            names[name] = self.read(default, function.scope) if default else UNKNOWN
        for name in (*places, *(each.arg for each in about.kwonlyargs)):
            names[name] = unite((names.get(name, missing or UNKNOWN), missing))
        names.update(zip(places, arguments, strict=False))
        names.update({name: values for name, values in keywords.items() if name in names})
        if about.vararg is not None:
            rest = arguments[len(places) :]
            names[about.vararg.arg] = gather(missing) if missing else known(Items(values=rest))
        if about.kwarg is not None:
            names[about.kwarg.arg] = gather(UNKNOWN)
        return names


def _last(value: object) -> str:
    return value.name.rpartition(".")[2] if isinstance(value, (Dotted, Method)) else ""


def _name_of(node: ast.expr, callees: Values) -> str:
    """The name by which something is called: of ``a.b.CDLL`` the last, also under another name."""
    if isinstance(node, ast.Attribute) and node.attr in {*ADDS, *OPENS, _MAY_OPEN}:
        return node.attr
    names = {_last(callee) for callee in callees} & (ADDS | OPENS)
    return names.pop() if len(names) == 1 else ""
