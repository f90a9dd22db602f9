"""Names and calls in a Python file, collected in one walk over its tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from binary_checks.python_code.parsing import ParsingBudget

_LONGEST = 256  # characters of a module's full name
_STEP = 16  # cost of visiting a node
_EMPTY = frozenset({"annotation", "returns", "ctx", "op", "ops"})
"""Fields of a node that neither bind nor read names; every other node has one of the last three."""
_DESCRIBING = frozenset({"restype", "argtypes", "errcheck"})
_EXTENDING = frozenset({"extend", "update"})
_APPENDING = frozenset({"append", "add", "appendleft", "insert"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Call(NamedTuple):
    """A call, and the scope in which its names are looked up."""

    node: ast.Call
    scope: PythonScope


class BoundNames:
    """The bindings and calls of one file."""

    def __init__(self, tree: ast.Module, budget: ParsingBudget) -> None:
        self.calls: list[Call] = []
        self.callers: dict[str, list[Call]] = {}  # calls of a function, by the function's name
        self.inner: dict[Function, PythonScope] = {}
        self.named: list[ast.Attribute | ast.Name] = []
        self.used: set[ast.expr] = set()  # functions that are called, or declared to ctypes
        self._grown: list[tuple[str, Binding]] = []
        # Each method records what a node binds, calls or returns, and returns the context of the
        # node's parts.
        self._noting: dict[type[ast.AST], Callable[..., BoundAt | None]] = {
            **dict.fromkeys((ast.Attribute, ast.Name), self._note_name),
            **dict.fromkeys((ast.AnnAssign, ast.NamedExpr), self._note_value),
            **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), self._note_loop),
            **dict.fromkeys(_COMPREHENSIONS, self._note_comprehension),
            **dict.fromkeys((ast.Import, ast.ImportFrom), self._note_import),
            **dict.fromkeys((ast.Global, ast.Nonlocal), self._note_shared),
            **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), self._note_returned),
            **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), self._note_function),
            ast.Call: self._note_call,
            ast.Assign: self._note_assignment,
            ast.AugAssign: self._note_more,
            ast.withitem: self._note_context,
            ast.Lambda: self._note_lambda,
        }
        self._walk(tree, budget)

    def _walk(self, tree: ast.Module, budget: ParsingBudget) -> None:
        left: list[tuple[ast.AST, BoundAt]] = [(tree, BoundAt(PythonScope()))]
        while left:
            budget.pay(_STEP)
            node, place = left.pop()
            note = self._noting.get(type(node))
            inner = note(node, place) if note is not None else None
            left.extend(reversed(_list_parts(node, inner or place)))
        for name, binding in self._grown:
            binding.place.scope.find(name).append(binding)

    def _note_name(self, node: ast.Attribute | ast.Name, _: BoundAt) -> None:
        self.named.append(node)
        if isinstance(node, ast.Attribute) and node.attr in _DESCRIBING:
            self.used.add(node.value)

    def _note_call(self, node: ast.Call, place: BoundAt) -> None:
        call = Call(node, place.scope)
        self.calls.append(call)
        self.used.add(node.func)
        if isinstance(node.func, ast.Name):
            self.callers.setdefault(node.func.id, []).append(call)
        elif isinstance(node.func, ast.Attribute) and node.args:
            more = node.args[-1]
            if node.func.attr in _EXTENDING | _APPENDING:
                more = more if node.func.attr in _EXTENDING else _list(more)
                self._grow(node.func.value, more, place, _end(node))

    def _note_assignment(self, node: ast.Assign, place: BoundAt) -> None:
        for target in node.targets:
            self._bind(target, node.value, place, _end(node))

    def _note_value(self, node: ast.AnnAssign | ast.NamedExpr, place: BoundAt) -> None:
        if node.value is not None:
            self._bind(node.target, node.value, place, _end(node))

    def _note_more(self, node: ast.AugAssign, place: BoundAt) -> None:
        self._grow(node.target, node.value, place, _end(node))

    def _note_loop(self, node: ast.For | ast.AsyncFor | ast.While, place: BoundAt) -> BoundAt:
        span = (_begin(node), _end(node))
        if not isinstance(node, ast.While):
            within = place._replace(until=span[1])
            self._bind(node.target, _element(node.iter), within, _end(node.iter))
        return place._replace(loop=span) if place.loop[0] == END else place

    def _note_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, place: BoundAt
    ) -> None:
        within = place._replace(until=_end(node))
        for loop in node.generators:
            self._bind(loop.target, _element(loop.iter), within, _begin(node))

    def _note_context(self, node: ast.withitem, place: BoundAt) -> None:
        if node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr, place, _end(node.context_expr))

    def _note_import(self, node: ast.Import | ast.ImportFrom, place: BoundAt) -> None:
        for alias in node.names:
            name = full = alias.name
            if isinstance(node, ast.ImportFrom):
                full = "" if node.level else f"{node.module}.{name}"
            elif not alias.asname:
                name = full = name.partition(".")[0]
            binding = Binding(full if 0 < len(full) <= _LONGEST else None, place, _end(node))
            place.scope.bind(alias.asname or name, binding)

    def _note_shared(self, node: ast.Global | ast.Nonlocal, place: BoundAt) -> None:
        place.scope.shared.update(node.names)

    def _note_returned(self, node: ast.Return | ast.Yield | ast.YieldFrom, place: BoundAt) -> None:
        if node.value is not None:
            value = _list(node.value) if isinstance(node, ast.Yield) else node.value
            place.scope.returned.append(value)

    def _note_function(self, node: Function, place: BoundAt) -> BoundAt:
        place.scope.bind(node.name, Binding(node, place))
        inner = self.inner[node] = PythonScope(place.scope)
        for each in _list_parameters(node.args):
            known = each not in {node.args.vararg, node.args.kwarg}
            inner.bind(
                each.arg, Binding(Parameter(node, each.arg) if known else None, BoundAt(inner))
            )
        return BoundAt(inner)

    def _note_lambda(self, node: ast.Lambda, place: BoundAt) -> None:
        for each in _list_parameters(node.args):
            binding = Binding(None, place._replace(until=_end(node)), _begin(node))
            place.scope.bind(each.arg, binding)

    def _bind(self, target: ast.expr, value: ast.expr, place: BoundAt, after: Position) -> None:
        if isinstance(target, ast.Name):
            place.scope.bind(target.id, Binding(value, place, after))
        elif isinstance(target, ast.Subscript):
            self._grow(target.value, _list(value), place, after)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[Bound] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(values):
                values = [*value.elts]
            for each, part in zip(target.elts, values, strict=True):
                if isinstance(each, ast.Name):
                    place.scope.bind(each.id, Binding(part, place, after))

    def _grow(self, target: ast.expr, more: ast.expr, place: BoundAt, after: Position) -> None:
        if isinstance(target, ast.Name):
            self._grown.append((target.id, Binding(Grown(more), place, after)))


def _list_parts(node: ast.AST, place: BoundAt) -> list[tuple[ast.AST, BoundAt]]:
    """Return the relevant parts of a node with their contexts.

    Each list of statements is a block.
    """
    parts: list[tuple[ast.AST, BoundAt]] = []
    for field in node._fields:
        part = None if field in _EMPTY else getattr(node, field, None)
        if isinstance(part, ast.AST):
            parts.append((part, place))
        elif isinstance(part, list) and part:
            last = part[-1]
            within = place._replace(until=_end(last)) if isinstance(last, ast.stmt) else place
            parts += [(each, within) for each in part if isinstance(each, ast.AST)]
    return parts


def _list_parameters(about: ast.arguments) -> Iterator[ast.arg]:
    yield from (*about.posonlyargs, *about.args, *about.kwonlyargs)
    yield from filter(None, (about.vararg, about.kwarg))


def _list(node: ast.expr) -> ast.List:
    return ast.List(elts=[node], ctx=ast.Load())


def _element(node: ast.expr) -> ast.Subscript:
    return ast.Subscript(value=node, slice=ast.Constant(value=...), ctx=ast.Load())


def _begin(node: ast.stmt | ast.expr) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> Position:
    return node.end_lineno or 0, node.end_col_offset or 0


# Bindings of names, and the code to which each binding applies.

Function = ast.FunctionDef | ast.AsyncFunctionDef
Position = tuple[int, int]  # line and column
Span = tuple[Position, Position]

BEGIN: Position = (0, 0)
END: Position = (1 << 62, 0)


class Parameter(NamedTuple):
    """A parameter of a function in the file; the callers of the function bind it."""

    function: Function
    name: str


class Grown(NamedTuple):
    """Elements that code adds to a list."""

    more: ast.expr


Bound = ast.expr | Function | Parameter | Grown | str | None
"""The value bound to a name: the full name for an import, None for an unknown value."""


class BoundAt(NamedTuple):
    """The context of a piece of code."""

    scope: PythonScope
    until: Position = END  # end of the block of statements that contains the code
    loop: Span = (END, END)  # the outermost loop of the function that contains the code


class Binding(NamedTuple):
    """A value of a name, and the position from which the name has this value."""

    value: Bound
    place: BoundAt
    after: Position = BEGIN

    def reaches(self, name: ast.Name, scope: PythonScope) -> bool:
        """Return whether a name may have this binding where it is read.

        If the name is read in another function, any binding may apply: the function may run at any
        time.
        """
        at, (first, last) = _begin(name), self.place.loop
        return scope is not self.place.scope or self.after <= at or first <= at < last

    def hides_others(self, name: ast.Name, scope: PythonScope) -> bool:
        """Return whether no earlier binding of the name can apply where the name is read.

        Later bindings of the same name are not considered.
        """
        whole = scope is self.place.scope and not isinstance(self.value, Grown)
        return whole and self.after <= _begin(name) < self.place.until


class PythonScope:
    """The names of a module or a function."""

    def __init__(self, outer: PythonScope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, list[Binding]] = {}
        self.shared: set[str] = set()  # names that are declared global or nonlocal
        self.returned: list[ast.expr] = []

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding; bind names declared global or nonlocal in all enclosing scopes."""
        homes = [self]
        while name in self.shared and homes[-1].outer is not None:
            homes.append(homes[-1].outer)
        for home in homes:
            home.names.setdefault(name, []).append(binding)

    def find(self, name: str) -> list[Binding]:
        """Return all bindings in the innermost scope that has any."""
        scope: PythonScope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.outer
        return scope.names[name] if scope is not None else []

    def read(self, name: ast.Name) -> list[Binding]:
        """Return the bindings that may apply where a name is read."""
        found = [each for each in self.find(name.id) if each.reaches(name, self)]
        hiding = (each.after for each in found if each.hides_others(name, self))
        latest = max(hiding, default=BEGIN)
        return [e for e in found if e.after >= latest or e.place.scope is not self]
