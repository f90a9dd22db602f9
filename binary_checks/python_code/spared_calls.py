"""Which calls of a Python file may fail, or come after the import, as far as its names tell."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from binary_checks.python_code.parsing import ParsingBudget

_CAUGHT = frozenset({"OSError", "WindowsError", "EnvironmentError", "Exception", "BaseException"})
"""What ctypes raises for a library that does not load, or what catches that."""
_OF_SYSTEM = frozenset({"sys", "os", "platform", "environ", "getenv", "TYPE_CHECKING"})
_EXIST = frozenset({"exists", "isfile", "is_file"})
_STEP = 4  # what it costs to look at a node
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class SparedCalls(NamedTuple):
    """Calls by what follows where they fail."""

    tried: frozenset[ast.Call]  # the code around them catches that and goes on
    late: frozenset[ast.Call]  # in functions that no import calls, or under a condition


class _Around(NamedTuple):
    """What is around a piece of code."""

    functions: tuple[str, ...] = ()
    tried: bool = False
    chosen: bool = False  # under a condition that nobody follows


def find_spared_calls(
    tree: ast.Module, budget: ParsingBudget, called: Iterable[str] = ()
) -> SparedCalls:
    """Walk over a file once. Raises LeftAloneError where that would cost too much.

    ``called`` are names of functions that other modules call when they are imported.
    """
    calls: dict[ast.Call, _Around] = {}
    left: list[tuple[ast.AST, _Around]] = [(tree, _Around())]
    while left:
        node, around = left.pop()
        if isinstance(node, ast.Call):
            calls[node] = around
        if isinstance(node, _FUNCTIONS):
            around = _Around(functions=(*around.functions, getattr(node, "name", "")))
        guards = isinstance(node, ast.Try) and any(_goes_on(each, budget) for each in node.handlers)
        guards = guards or _is_suppressing(node)
        chooses = isinstance(node, ast.If) and not _is_of_system(node.test, budget)
        for field, part in ast.iter_fields(node):
            within = around._replace(tried=True) if guards and field == "body" else around
            within = within._replace(chosen=True) if chooses and field != "test" else within
            parts = part if isinstance(part, list) else [part]
            budget.pay(_STEP * len(parts))
            left += [(each, within) for each in parts if isinstance(each, ast.AST)]
    callers = _find_called(calls, called, budget)
    known = {
        call: [callers[name] for name in around.functions if name in callers]
        for call, around in calls.items()
    }
    return SparedCalls(
        frozenset(
            call
            for call, around in calls.items()
            if around.tried or (known[call] and all(known[call]))
        ),
        frozenset(
            call
            for call, around in calls.items()
            if around.chosen or (around.functions and not known[call])
        ),
    )


def _find_called(
    calls: Mapping[ast.Call, _Around], called: Iterable[str], budget: ParsingBudget
) -> dict[str, bool]:
    """The names that an import calls, and whether it goes on wherever such a call fails."""
    found, before = dict.fromkeys(called, False), {"": False}
    while found != before:
        before = dict(found)
        budget.pay(_STEP * len(calls))
        for call, around in calls.items():
            around_it = [found[name] for name in around.functions if name in found]
            if not around.chosen and (around_it or not around.functions):
                tried = around.tried or (bool(around_it) and all(around_it))
                name = _name_of(call.func)
                found[name] = found.get(name, True) and tried
    return found


def _goes_on(handler: ast.ExceptHandler, budget: ParsingBudget) -> bool:
    """Whether a handler takes a failed load, and neither raises nor calls for another library.

    An exception of the package's own may stand for one: xformers raises xFormersInvalidLibException
    and catches that.
    """
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {_name_of(kind) for kind in kinds if kind is not None}
    own = any(_is_own(kind) for kind in kinds if kind is not None)
    if handler.type is not None and not own and _CAUGHT.isdisjoint(names):
        return False
    for node in ast.walk(handler):
        budget.pay(_STEP)  # again for each handler around it
        if _tries_again(node):
            return False
    return True


def _is_own(kind: ast.expr) -> bool:
    """Whether an exception may be the package's own, rather than Python's."""
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
    """Whether a statement is ``with contextlib.suppress(OSError)``."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    calls = [item.context_expr for item in items if isinstance(item.context_expr, ast.Call)]
    return any(
        _name_of(call.func) == "suppress" and not _CAUGHT.isdisjoint(map(_name_of, call.args))
        for call in calls
    )


def _is_of_system(test: ast.expr, budget: ParsingBudget) -> bool:
    """Whether a condition asks for the system, for a variable of the environment, or for a file.

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
