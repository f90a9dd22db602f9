"""Which modules a Python file always imports, whatever the system and the Python."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

LONGEST_NAME = 250  # characters of a module's full name that is followed
_CATCHING = frozenset(
    {"ImportError", "ModuleNotFoundError", "SyntaxError", "Exception", "BaseException"}
)


def list_always_imported(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """The full names of the modules that importing this one imports, or may be in a module.

    Passed over are imports in functions, in branches, and where an ImportError or a SyntaxError is
    caught. Of ``from a import b`` come ``a`` and ``a.b``, whatever ``b`` is.
    """
    for node in _list_always_run(tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if len(alias.name) <= LONGEST_NAME)
        elif isinstance(node, ast.ImportFrom):
            named = "." * node.level + (node.module or "")
            base = resolve(named, module, is_package=is_package)
            if 0 < len(base) <= LONGEST_NAME:
                yield base
                yield from (f"{base}.{alias.name[:LONGEST_NAME]}" for alias in node.names)


def _list_always_run(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    left = list(body)
    while left:
        node = left.pop()
        if isinstance(node, (ast.With, ast.ClassDef)):
            left += node.body
        elif isinstance(node, ast.Try):
            left += node.finalbody
            left += [] if any(map(_catches, node.handlers)) else node.body
        else:
            yield node


def _catches(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(not isinstance(kind, ast.Name) or kind.id in _CATCHING for kind in kinds)


def resolve(named: str, module: str, *, is_package: bool) -> str:
    """The full name of a module that another imports as ``..a.b``; "" where there is none."""
    inner = named.lstrip(".")
    level = len(named) - len(inner)
    if not level:
        return inner
    parts = module.split(".") if is_package else module.split(".")[:-1]
    if level > len(parts):
        return ""
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [inner])])
