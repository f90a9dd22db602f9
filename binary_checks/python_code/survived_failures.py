"""Which statements catch that a library or a module does not load, and go on without it."""

from __future__ import annotations

import ast
import builtins

_CAUGHT = frozenset(
    {"OSError", "WindowsError", "EnvironmentError", "ImportError", "Exception", "BaseException"}
)


def goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes a failed load, and nothing in it raises again.

    An exception of the package's own may stand for one: xformers raises xFormersInvalidLibException
    and catches that.
    """
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [_name_of(kind) for kind in kinds if kind is not None]
    caught = handler.type is None or any(
        name in _CAUGHT or not hasattr(builtins, name) for name in names
    )
    return caught and not any(isinstance(each, ast.Raise) for each in ast.walk(handler))


def is_suppressing(node: ast.stmt) -> bool:
    """Whether a statement is ``with contextlib.suppress(OSError)``, or of other such failures."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    calls = [item.context_expr for item in items if isinstance(item.context_expr, ast.Call)]
    return any(
        _name_of(call.func) == "suppress" and not _CAUGHT.isdisjoint(map(_name_of, call.args))
        for call in calls
    )


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
