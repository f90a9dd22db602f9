"""Which calls of a Python file may fail: the code around them catches that and goes on."""

from __future__ import annotations

import ast
from typing import NamedTuple

from binary_checks.python_code.parsing import ParsingBudget

_CAUGHT = frozenset({"OSError", "WindowsError", "EnvironmentError", "Exception", "BaseException"})
"""What ctypes raises for a library that does not load, or what catches that."""
_STEP = 4  # what it costs to look at a node
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class SparedCalls(NamedTuple):
    """Calls by what follows where they fail."""

    tried: frozenset[ast.Call]
    """The code goes on; it may try something else, and fail at last."""
    late: frozenset[ast.Call]
    """Those of them that are no attempt among several, in functions that no import calls."""


class _Around(NamedTuple):
    """What is around a piece of code."""

    functions: tuple[str, ...] = ()
    tried: bool = False
    looped: bool = False


def find_spared_calls(tree: ast.Module, budget: ParsingBudget) -> SparedCalls:
    """Walk over a file once. Raises LeftAloneError where that would cost too much."""
    tried: dict[ast.Call, _Around] = {}
    at_import: set[str] = set()
    left: list[tuple[ast.AST, _Around]] = [(tree, _Around())]
    while left:
        node, around = left.pop()
        if isinstance(node, ast.Call):
            if around.tried:
                tried[node] = around
            if not around.functions:
                at_import.add(_name_of(node.func))
        if isinstance(node, _FUNCTIONS):
            name = getattr(node, "name", "")
            around = _Around(functions=(*around.functions, name))
        elif isinstance(node, _LOOPS):
            around = around._replace(looped=True)
        guards = isinstance(node, ast.Try) and any(
            _goes_on(handler, budget) for handler in node.handlers
        )
        for field, part in ast.iter_fields(node):
            within = around._replace(tried=True) if guards and field == "body" else around
            parts = part if isinstance(part, list) else [part]
            budget.pay(_STEP * len(parts))
            left += [(each, within) for each in parts if isinstance(each, ast.AST)]
    late = (call for call, around in tried.items() if around.functions and not around.looped)
    return SparedCalls(
        frozenset(tried),
        frozenset(call for call in late if at_import.isdisjoint(tried[call].functions)),
    )


def _goes_on(handler: ast.ExceptHandler, budget: ParsingBudget) -> bool:
    """Whether a handler takes a failed load, and neither raises nor calls for another library."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {_name_of(kind) for kind in kinds if kind is not None}
    if handler.type is not None and _CAUGHT.isdisjoint(names):
        return False
    for node in ast.walk(handler):
        budget.pay(_STEP)  # again for each handler around it
        if _tries_again(node):
            return False
    return True


def _tries_again(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = _name_of(node.func).lower()
        return "load" in name or "dll" in name or name in {"dlopen", "exit"}
    return isinstance(node, ast.Raise)


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
