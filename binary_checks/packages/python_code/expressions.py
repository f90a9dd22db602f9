"""Computes expressions of Python code without running it: what is not known stays unknown."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from pathlib import PureWindowsPath

from binary_checks.packages.python_code import library, methods, operators
from binary_checks.packages.python_code.names import Names
from binary_checks.packages.python_code.places import Places, join
from binary_checks.packages.python_code.values import (
    FOREIGN,
    MOST_ITEMS,
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
    truth,
    unite,
)

ENVIRONMENT = Dotted(name="os.environ")


class Expressions(Names):
    """The expressions of one file; running functions and reporting calls is left to others."""

    def __init__(self, path: str, places: Places, steps: int) -> None:
        super().__init__(steps)
        self.path = path
        self.places = places
        stem = path.removesuffix(".py").removesuffix(".pth")
        self.module = stem.removesuffix("/__init__").replace("/", ".")
        self.package = self.module if stem.endswith("/__init__") else self.module.rpartition(".")[0]
        self._readers: dict[type[ast.expr], Callable[..., Values]] = {
            ast.Constant: lambda node, _: known(node.value),
            ast.Name: self._read_name,
            ast.Attribute: self._read_attribute,
            ast.Call: self.call,
            ast.JoinedStr: self._read_joined,
            ast.FormattedValue: self._read_formatted,
            ast.BinOp: self._read_operation,
            ast.BoolOp: self._read_choice,
            ast.UnaryOp: self._read_unary,
            ast.Compare: self._read_comparison,
            ast.IfExp: self._read_condition,
            ast.NamedExpr: self._read_walrus,
            ast.Subscript: self._read_subscript,
            ast.Starred: lambda node, scope: self.read(node.value, scope),
            ast.Await: lambda node, scope: self.read(node.value, scope),
            ast.Lambda: lambda node, scope: known(Function(node, scope)),
            ast.Yield: self._read_yield,
            ast.YieldFrom: self._read_yield,
            **dict.fromkeys((ast.Tuple, ast.List, ast.Set), self._read_items),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), self._read_filter),
            ast.Dict: lambda node, scope: gather(unite(self._read_all(node.values, scope))),
        }

    def call(self, node: ast.Call, scope: Scope) -> Values:
        """What a call gives."""
        raise NotImplementedError

    def read(self, node: ast.expr | None, scope: Scope) -> Values:
        """The values that an expression may have."""
        self.pay(1)
        reader = self._readers.get(type(node)) if node is not None else None
        return reader(node, scope) if reader else UNKNOWN

    def _read_all(self, nodes: Sequence[ast.expr | None], scope: Scope) -> tuple[Values, ...]:
        return tuple(self.read(node, scope) for node in nodes)

    def _read_name(self, node: ast.Name, scope: Scope) -> Values:
        if home := self.find(node.id, scope):
            return home.names[node.id]
        own = {"__file__": join(self.path), "__name__": self.module, "__package__": self.package}
        if node.id in own:
            return known(own[node.id])
        if node.id == "__path__":
            return self._read_module(self.module, "__path__")
        return known(Dotted(name=f"builtins.{node.id}"))

    def _read_attribute(self, node: ast.Attribute, scope: Scope) -> Values:
        return self.attribute(self.read(node.value, scope), node.attr)

    def attribute(self, values: Values, name: str) -> Values:
        """An attribute of each of the values; None has none, so it is another one that is meant."""
        values = values - NONE or values
        return unite(self._attribute_of(value, name) for value in values)

    def _attribute_of(self, value: object, name: str) -> Values:
        if isinstance(value, Mark):
            return known(value)
        if not isinstance(value, Dotted):
            return methods.read_attribute(value, name)
        full = f"{value.name}.{name}"
        if full in library.CONSTANTS:
            return library.CONSTANTS[full]
        if name.startswith("__") or name in {"origin", "submodule_search_locations"}:
            return self._read_module(value.name, name)
        return known(Dotted(name=full))

    def _read_module(self, module: str, name: str) -> Values:
        """Where a module lies: another package's is that package's affair."""
        if name == "__name__":
            return known(module)
        place = self.places.module(module)
        if place is None:
            return UNKNOWN if self.is_library(module) else FOREIGN
        if name in {"__file__", "origin"}:
            return known(place)
        folder = place.removesuffix("\\__init__.py")
        return (
            known(Items(values=(known(folder),)))
            if name != "__spec__"
            else known(Dotted(name=module))
        )

    def is_library(self, name: str) -> bool:
        """Whether a name is of Python's own library or of this package, not of another one."""
        top = name.partition(".")[0]
        return top in sys.stdlib_module_names or top == "builtins" or bool(self.places.module(top))

    def settle(self, values: Values) -> Values:
        """What is found in a module is not known, or another package's."""
        found = {value for value in values if isinstance(value, Dotted)}
        if not found:
            return values
        own = any(value != ENVIRONMENT and self.is_library(value.name) for value in found)
        return (values - found) | (UNKNOWN if own else FOREIGN)

    def _read_settled(self, nodes: Sequence[ast.expr], scope: Scope) -> tuple[Values, ...]:
        return tuple(map(self.settle, self._read_all(nodes, scope)))

    def _read_joined(self, node: ast.JoinedStr, scope: Scope) -> Values:
        parts = self._read_settled(node.values, scope)
        return combine(lambda *texts: "".join(map(str, texts)), *parts)

    def _read_formatted(self, node: ast.FormattedValue, scope: Scope) -> Values:
        return UNKNOWN if node.format_spec else self.read(node.value, scope)

    def _read_operation(self, node: ast.BinOp, scope: Scope) -> Values:
        left, right = self._read_settled((node.left, node.right), scope)
        if not isinstance(node.op, ast.Div):
            return operators.add(left, right) if isinstance(node.op, ast.Add) else UNKNOWN
        return unite(
            methods.call_method(Method(of=path, name="joinpath"), (right,), self.places)
            if isinstance(path, PureWindowsPath)
            else known(path)
            for path in operators.only_paths(left)
        )

    def _read_choice(self, node: ast.BoolOp, scope: Scope) -> Values:
        """``a or b``, ``a and b``: each that may be the answer."""
        stops = isinstance(node.op, ast.Or)
        found: list[Values] = []
        for part in node.values:
            values = self.read(part, scope)
            found.append(values)
            if truth(values) is stops:
                break
            if truth(values) is not None and part is not node.values[-1]:
                found.pop()
        return unite(found)

    def _read_unary(self, node: ast.UnaryOp, scope: Scope) -> Values:
        return operators.turn(node.op, self.read(node.operand, scope))

    def _read_comparison(self, node: ast.Compare, scope: Scope) -> Values:
        left, *others = self._read_all((node.left, *node.comparators), scope)
        return operators.compare(node.ops[0], left, others[0]) if len(others) == 1 else UNKNOWN

    def _read_condition(self, node: ast.IfExp, scope: Scope) -> Values:
        answer = truth(self.read(node.test, scope))
        parts = [node.body] * (answer is not False) + [node.orelse] * (answer is not True)
        return unite(self._read_all(parts, scope))

    def _read_walrus(self, node: ast.NamedExpr, scope: Scope) -> Values:
        values = self.read(node.value, scope)
        self.bind(node.target.id, values, scope)
        return values

    def _read_subscript(self, node: ast.Subscript, scope: Scope) -> Values:
        lists, index = self.read(node.value, scope), self.read(node.slice, scope)
        if lists == known(Dotted(name="sys.modules")):
            return combine(lambda name: Dotted(name=str(name)), index)
        return unite(operators.pick(each, index) for each in self.settle(lists))

    def _read_items(self, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Values:
        values = self._read_all(node.elts, scope)
        if any(isinstance(part, ast.Starred) for part in node.elts):
            spread = zip(node.elts, values, strict=True)
            flat = (elements(v) if isinstance(part, ast.Starred) else v for part, v in spread)
            return gather(unite(flat))
        return known(Items(values=values)) if len(values) <= MOST_ITEMS else gather(unite(values))

    def _read_filter(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope
    ) -> Values:
        inner = Scope({}, scope)
        for loop in node.generators:
            self.assign(loop.target, elements(self.read(loop.iter, inner)), inner)
            if any(truth(self.read(test, inner)) is False for test in loop.ifs):
                return known(Items())
        return gather(self.read(node.elt, inner))

    def _read_yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Values:
        values = self.read(node.value, scope) if node.value else NONE
        given = elements(values) if isinstance(node, ast.YieldFrom) else values
        scope.yielded = unite((scope.yielded or frozenset(), given))
        return UNKNOWN
