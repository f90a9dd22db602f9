"""What the names of a Python file are bound to, and where each binding counts."""

from __future__ import annotations

import ast
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Position = tuple[int, int]  # line and column
Span = tuple[Position, Position]

BEGIN: Position = (0, 0)
END: Position = (1 << 62, 0)


class Parameter(NamedTuple):
    """A parameter of a function of the file, which its callers bind."""

    function: Function
    name: str


class Grown(NamedTuple):
    """More elements of a list."""

    more: ast.expr


Bound = ast.expr | Function | Parameter | Grown | str | None
"""What a name is bound to: an import's full name is text, what is not known None."""


class BoundAt(NamedTuple):
    """What is around a piece of code."""

    scope: PythonScope
    until: Position = END  # of its block of statements
    loop: Span = (END, END)  # the outermost of its function


class Binding(NamedTuple):
    """What a name is bound to from some position on."""

    value: Bound
    place: BoundAt
    after: Position = BEGIN

    def reaches(self, name: ast.Name, scope: PythonScope) -> bool:
        """Whether the name may be bound so where it is read: another function may run any time."""
        at, (first, last) = _begin(name), self.place.loop
        return scope is not self.place.scope or self.after <= at or first <= at < last

    def hides_others(self, name: ast.Name, scope: PythonScope) -> bool:
        """Whether the name is bound so for certain where it is read, if not anew since."""
        whole = scope is self.place.scope and not isinstance(self.value, Grown)
        return whole and self.after <= _begin(name) < self.place.until


class PythonScope:
    """The names of a module or of a function."""

    def __init__(self, outer: PythonScope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, list[Binding]] = {}
        self.shared: set[str] = set()  # declared global or nonlocal
        self.returned: list[ast.expr] = []

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding; what is declared global or nonlocal is bound in all scopes around."""
        homes = [self]
        while name in self.shared and homes[-1].outer is not None:
            homes.append(homes[-1].outer)
        for home in homes:
            home.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> list[Binding]:
        """All bindings in the innermost scope that has some."""
        scope: PythonScope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.outer
        return scope.names[name] if scope is not None else []

    def read(self, name: ast.Name) -> list[Binding]:
        """The bindings that may count where a name is read."""
        found = [each for each in self.find(name.id) if each.reaches(name, self)]
        hiding = (each.after for each in found if each.hides_others(name, self))
        latest = max(hiding, default=BEGIN)
        return [e for e in found if e.after >= latest or e.place.scope is not self]


def _begin(node: ast.expr) -> Position:
    return node.lineno, node.col_offset
