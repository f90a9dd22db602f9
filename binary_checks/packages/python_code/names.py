"""The names of Python code, and what they may mean at the place that is being followed."""

from __future__ import annotations

import ast

from binary_checks.packages.python_code.operators import pick
from binary_checks.packages.python_code.values import (
    Scope,
    TooMuchError,
    Values,
    extend,
    known,
    unite,
)

_GROWING = frozenset({"append", "add", "appendleft", "insert", "extend", "update"})


class Names:
    """What is bound to names, and how many steps are left to take."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def pay(self, steps: int) -> None:
        """Count what is done, so that no code takes long."""
        self._steps -= steps
        if self._steps < 0:
            raise TooMuchError

    def find(self, name: str, scope: Scope | None) -> Scope | None:
        """The innermost scope that has the name."""
        while scope is not None and name not in scope.names:
            scope = scope.outer
        return scope

    def bind(self, name: str, values: Values, scope: Scope) -> None:
        """Let a name have these values; one of an outer scope may have them, or its old ones."""
        home = self.find(name, scope.outer) if name in scope.shared else scope
        if home is None or home is scope:
            scope.names[name] = values
        else:
            home.names[name] = unite((home.names[name], values))

    def grow(self, node: ast.expr, more: Values, scope: Scope) -> None:
        """Add an element to the list of that name."""
        home = self.find(node.id, scope) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Name) and home is not None:
            home.names[node.id] = extend(home.names[node.id], more)

    def assign(self, target: ast.expr, values: Values, scope: Scope) -> None:
        """Bind what stands on the left of an assignment."""
        if isinstance(target, ast.Name):
            self.bind(target.id, values, scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for number, part in enumerate(target.elts):
                index = known(number)
                picked = unite(pick(each, index) for each in values)
                self.assign(part, picked, scope)
        elif isinstance(target, ast.Subscript):
            self.grow(target.value, values, scope)


def grows(name: str) -> bool:
    """Whether a method of that name adds to its list."""
    return name in _GROWING
