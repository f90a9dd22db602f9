"""Imports and calls that open libraries, and whether the code around them goes on without them."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from binary_checks.python_code.parsing import LeftAloneError, parse

_CATCH_ALL = frozenset({"Exception", "BaseException"})
_FAILED_LOADS = _CATCH_ALL | {"OSError", "WindowsError", "EnvironmentError"}
"""Exceptions that ctypes raises for a library that does not load, and their base classes."""
_FAILED_IMPORTS = _CATCH_ALL | {"ImportError"}
"""Exceptions that a failed import of a file raises, and their base classes; the file is there, so
ModuleNotFoundError is not among them.
"""
_OF_SYSTEM = frozenset({"", "sys", "os", "platform", "environ", "getenv", "TYPE_CHECKING"})
_EXIST = frozenset({"exists", "isfile", "is_file"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_GUARDS = (ast.Try, ast.With, ast.AsyncWith)


class _Context(NamedTuple):
    """The context of a piece of code."""

    functions: tuple[str, ...] = ()
    tried: bool = False  # whether the code around it catches a failure and continues
    chosen: bool = False  # whether the code is under a condition that is not evaluated


def _walk(
    tree: ast.Module, caught: frozenset[str], stops: Callable[[ast.AST], bool]
) -> Iterator[tuple[ast.AST, _Context]]:
    """Yield all nodes of a file with their contexts.

    Code is tried if a handler catches one of the exceptions, and nothing in the handler ``stops``.
    """
    waiting: list[tuple[ast.AST, _Context]] = [(tree, _Context())]
    while waiting:
        node, context = waiting.pop()
        yield node, context
        if isinstance(node, _FUNCTIONS):
            context = _Context(functions=(*context.functions, getattr(node, "name", "")))
        guards = isinstance(node, _GUARDS) and (
            any(_goes_on(each, caught, stops) for each in node.handlers)
            if isinstance(node, ast.Try)
            else _is_suppressing(node, caught)
        )
        chooses = isinstance(node, ast.If) and not _is_of_system(node.test)
        for field, part in ast.iter_fields(node):
            within = context._replace(tried=True) if guards and field == "body" else context
            within = within._replace(chosen=True) if chooses and field != "test" else within
            if isinstance(part, list):
                waiting += [(each, within) for each in part if isinstance(each, ast.AST)]
            elif isinstance(part, ast.AST):
                waiting.append((part, within))


def _goes_on(
    handler: ast.ExceptHandler, caught: frozenset[str], stops: Callable[[ast.AST], bool]
) -> bool:
    """Return whether a handler catches a failure, and the code continues after it.

    The package may define the exception: xformers raises xFormersInvalidLibException, and catches
    it.
    """
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    named = [kind for kind in kinds if kind is not None]
    if named and caught.isdisjoint(map(_name_of, named)) and not any(map(_is_own, named)):
        return False
    return not any(map(stops, ast.walk(handler)))


def _is_own(kind: ast.expr) -> bool:
    """Return whether an exception may be the package's own, rather than Python's."""
    module = _name_of(kind.value) if isinstance(kind, ast.Attribute) else ""
    name = _name_of(kind)
    return bool(name) and not hasattr(builtins, name) and module not in sys.stdlib_module_names


def _is_suppressing(node: ast.With | ast.AsyncWith, caught: frozenset[str]) -> bool:
    """Return whether a statement is ``with contextlib.suppress(OSError)``."""
    calls = [each.context_expr for each in node.items if isinstance(each.context_expr, ast.Call)]
    return any(
        _name_of(call.func) == "suppress" and not caught.isdisjoint(map(_name_of, call.args))
        for call in calls
    )


def _is_of_system(test: ast.expr) -> bool:
    """Return whether a condition tests the system, an environment variable, or a file.

    lightgbm opens its library unless ``environ.get("LIGHTGBM_BUILD_DOC", "False") == "True"``.
    """
    if isinstance(test, ast.Call) and _name_of(test.func) in _EXIST:
        return True
    return {getattr(node, "id", "") for node in ast.walk(test)} <= _OF_SYSTEM


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# Calls that open libraries.

_LIBRARY = "LoadLibrary LoadLibraryA LoadLibraryW LoadLibraryEx LoadLibraryExA LoadLibraryExW"
# functions that open a file, and the position of the path among their arguments
_OPENS = {
    **dict.fromkeys(("CDLL", "WinDLL", "OleDLL", "PyDLL", "dlopen", *_LIBRARY.split()), 0),
    "load_library": 0,  # of torch.ops
    "spec_from_file_location": 1,
    "ExtensionFileLoader": 1,
}


class Opening(NamedTuple):
    """A call with which code opens a file."""

    code: str
    literal: bool  # whether the name of the file stands in the call
    tried: bool  # whether the code continues if the call fails
    late: bool  # whether no import executes the call, judging by the names of functions


def find_openings(content: bytes, called: Iterable[str] = ()) -> list[Opening]:
    """Find the calls in a source that open files.

    ``called`` are names of functions that other modules call when they are imported. Raises
    LeftAloneError.
    """
    tree = parse(content)
    calls = [
        (node, context)
        for node, context in _walk(tree, _FAILED_LOADS, _tries_again)
        if isinstance(node, ast.Call)
    ]
    tried = _find_called(calls, called)
    found: list[Opening] = []
    for node, context in calls:
        given = [*node.args, *(each.value for each in node.keywords)]
        position = _OPENS.get(_name_of(node.func), len(given))
        if position >= len(given):
            continue
        ways = [tried[name] for name in context.functions if name in tried]
        try:
            code = ast.unparse(node)
        except RecursionError:
            raise LeftAloneError("it is nested too deeply") from None
        found.append(
            Opening(
                code=code,
                literal=isinstance(given[position], ast.Constant),
                tried=context.tried or (bool(ways) and all(ways)),
                late=context.chosen or (bool(context.functions) and not ways),
            )
        )
    return found


def _find_called(
    calls: Sequence[tuple[ast.Call, _Context]], called: Iterable[str]
) -> dict[str, bool]:
    """Return the names of functions that an import calls.

    The value is True if the code continues after a failure, wherever the function is called.
    """
    found, before = dict.fromkeys(called, False), {"": False}
    while found != before:
        before = dict(found)
        for call, context in calls:
            enclosing = [found[name] for name in context.functions if name in found]
            if not context.chosen and (enclosing or not context.functions):
                name = _name_of(call.func)
                tried = context.tried or (bool(enclosing) and all(enclosing))
                found[name] = found.get(name, True) and tried
    return found


def _tries_again(node: ast.AST) -> bool:
    """Return whether a handler raises, exits, or opens another library."""
    if isinstance(node, ast.Call):
        name = _name_of(node.func).lower()
        return "load" in name or "dll" in name or name in {"dlopen", "exit"}
    return isinstance(node, ast.Raise)


# Extension modules that a package imports only under ``try``.


class TriedImports:
    """Searches sources for import statements of certain modules."""

    def __init__(self, modules: frozenset[str]) -> None:
        """``modules`` are full names, ``demo.core._fast``."""
        self._modules = modules
        stems = sorted({module.rpartition(".")[2] for module in modules})
        words = b"|".join(re.escape(stem.encode()) for stem in stems)
        self._mentioned = re.compile(rb"\b(?:" + words + rb")\b")
        self._tried: set[str] = set()
        self._demanded: set[str] = set()

    def see(self, path: str, content: bytes) -> None:
        """Search one source; the path is relative to site-packages."""
        if b"import" not in content:
            return
        stems = {name.decode() for name in set(self._mentioned.findall(content))}
        named = {each for each in self._modules if each.rpartition(".")[2] in stems}
        if not named:
            return
        try:
            tree = parse(content)
        except LeftAloneError:
            self._demanded |= named
            return
        package = path.split("/")[:-1]
        for node, context in _walk(tree, _FAILED_IMPORTS, lambda node: isinstance(node, ast.Raise)):
            for name in _list_imported(node, package):
                found = {each for each in named if f"{name}.".startswith(f"{each}.")}
                (self._tried if context.tried else self._demanded).update(found)

    def conclude(self) -> frozenset[str]:
        """Return the modules for which every import statement catches a failure."""
        return frozenset(self._tried - self._demanded)


def _list_imported(node: ast.AST, package: list[str]) -> Iterator[str]:
    """Yield the full names that a node imports.

    ``importlib.import_module("demo._fast")`` imports the module that its argument names.
    """
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else []
        parts = [*above, *filter(None, [node.module])]
        yield from (".".join([*parts, alias.name]) for alias in node.names)
        yield ".".join(parts)
    elif isinstance(node, ast.Call) and _name_of(node.func) in {"import_module", "__import__"}:
        for each in node.args:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                name = each.value
                yield ".".join([*package, name[1:]]) if name.startswith(".") else name
