"""Whether a condition in Python code holds on a system, as far as it asks for nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

_VALUES: Mapping[str, Mapping[str, str]] = {
    "sys.platform": {"linux": "linux", "macos": "darwin", "windows": "win32"},
    "os.name": {"linux": "posix", "macos": "posix", "windows": "nt"},
    "platform.system": {"linux": "Linux", "macos": "Darwin", "windows": "Windows"},
    "__name__": dict.fromkeys(("linux", "macos", "windows"), "a module"),
}
_DEEPEST = 20
_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


Asks = Callable[[ast.Call], bool | None]


def decide(test: ast.expr, system: str, ask: Asks, depth: int = 0) -> bool | None:
    """Whether it is true there; None where it depends on anything else.

    ``ask`` says it of calls that have nothing to do with the system.
    """
    found: bool | None = None
    if depth == _DEEPEST:
        pass
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = decide(test.operand, system, ask, depth + 1)
        found = None if inner is None else not inner
    elif isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)  # the value of one part that settles all
        parts = [decide(each, system, ask, depth + 1) for each in test.values]
        found = ends if ends in parts else None if None in parts else not ends
    elif isinstance(test, ast.Constant):
        found = bool(test.value)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        found = _compare(test.left, test.ops[0], test.comparators[0], system)
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        found = _starts(test, test.func, system)
        found = ask(test) if found is None else found
    elif _spell(test).rpartition(".")[2] == "TYPE_CHECKING":
        found = False
    return found


def decide_unset(test: ast.expr, depth: int = 0) -> bool | None:
    """Whether it is true where nobody sets environment variables; None where it asks for others.

    lightgbm opens its library unless ``environ.get("LIGHTGBM_BUILD_DOC", "False") == "True"``.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and depth < _DEEPEST:
        inner = decide_unset(test.operand, depth + 1)
        return None if inner is None else not inner
    if isinstance(test, ast.Call):
        found = _default(test)
        return None if found is None else bool(found)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    operator, right = test.ops[0], test.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)) and _is_environment(right):
        return isinstance(operator, ast.NotIn)
    mine, others = _default(test.left), _texts(right)
    if mine is None or others is None or not isinstance(operator, _EQUALITIES):
        return None
    return (mine in others) is isinstance(operator, (ast.Eq, ast.In))


def _default(node: ast.expr) -> str | None:
    """What a call that reads an environment variable gives without it, "" for None."""
    function = node.func if isinstance(node, ast.Call) else None
    named = isinstance(function, ast.Attribute) and (
        (function.attr == "get" and _is_environment(function.value))
        or _spell(function) == "os.getenv"
    )
    if not (named or (isinstance(function, ast.Name) and function.id == "getenv")):
        return None
    assert isinstance(node, ast.Call)
    if node.keywords or len(node.args) > 2:
        return None
    default = node.args[1] if len(node.args) == 2 else ast.Constant(None)
    known = isinstance(default, ast.Constant) and isinstance(default.value, (str, type(None)))
    return (default.value or "") if known and isinstance(default, ast.Constant) else None  # type: ignore[return-value]


def _is_environment(node: ast.expr) -> bool:
    return _spell(node) in ("os.environ", "environ")


def _compare(left: ast.expr, operator: ast.cmpop, right: ast.expr, system: str) -> bool | None:
    mine, others = _value(left, system), _texts(right)
    if mine is None and isinstance(operator, (ast.Eq, ast.NotEq)):
        mine, others = _value(right, system), _texts(left)
    if mine is None or others is None:
        return None
    if isinstance(operator, (ast.Eq, ast.In)):
        return mine in others
    return mine not in others if isinstance(operator, (ast.NotEq, ast.NotIn)) else None


def _starts(test: ast.Call, function: ast.Attribute, system: str) -> bool | None:
    mine = _value(function.value, system)
    beginnings = _texts(test.args[0]) if len(test.args) == 1 else None
    if function.attr != "startswith" or mine is None or beginnings is None:
        return None
    return mine.startswith(beginnings)


def _value(node: ast.expr, system: str) -> str | None:
    """What ``sys.platform`` and the like are on the system."""
    if isinstance(node, ast.Call) and not node.args:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "lower":
            inner = _value(node.func.value, system)
            return inner and inner.lower()
        node = node.func
    return _VALUES.get(_spell(node), {}).get(system)


def _spell(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _texts(node: ast.expr) -> tuple[str, ...] | None:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    texts = [each.value for each in parts if isinstance(each, ast.Constant)]
    found = tuple(each for each in texts if isinstance(each, str))
    return found if len(found) == len(parts) else None
