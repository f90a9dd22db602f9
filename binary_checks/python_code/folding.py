"""Folds expressions of Python code into the texts that they may be on Windows; runs nothing."""

from __future__ import annotations

import ast
import ntpath
from collections.abc import Callable, Iterable

from binary_checks.python_code.bound_names import BoundNames
from binary_checks.python_code.parsing import ParsingBudget
from binary_checks.python_code.possible_texts import (
    NOTHING,
    SOMETHING,
    Several,
    Texts,
    combine,
    one,
    unite,
)
from binary_checks.python_code.python_library import NAMES, PythonLibrary
from binary_checks.python_code.scopes import Binding, Grown, Parameter, PythonScope
from binary_checks.python_code.windows_paths import Places, join

_COST = 32  # of looking at an expression
_DEEPEST = 40  # expressions in one another
_MOST_PARTS = 64  # of one expression


class Folder:
    """The expressions of one file: a name is all that it may be bound to where it is read."""

    def __init__(self, path: str, names: BoundNames, places: Places, budget: ParsingBudget) -> None:
        self._file = one(join(path))
        self._names = names
        self._places = places
        self._library = PythonLibrary(places, budget)
        self._budget = budget
        self._done: dict[ast.AST | Parameter, Texts] = {}
        self._depth = 0
        self._readers: dict[type[ast.AST], Callable[..., Texts]] = {
            ast.Constant: self._read_constant,
            ast.Name: self._read_name,
            ast.Attribute: self._read_attribute,
            ast.Subscript: self._read_subscript,
            ast.Call: self._read_call,
            ast.BinOp: self._read_operation,
            ast.JoinedStr: self._read_joined,
            ast.FormattedValue: self._read_formatted,
            ast.BoolOp: lambda node, scope: self._read_any(node.values, scope),
            ast.IfExp: lambda node, scope: self._read_any((node.body, node.orelse), scope),
            ast.Dict: lambda node, scope: Several(self._read_any(node.values, scope)),
            **dict.fromkeys((ast.List, ast.Tuple, ast.Set), self._read_list),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), self._read_filter),
            **dict.fromkeys((ast.NamedExpr, ast.Starred), self._read_value),
        }

    def fold(self, node: ast.AST | None, scope: PythonScope) -> Texts:
        """Every text that the expression may be; each expression is read once."""
        reader = self._readers.get(type(node)) if node is not None else None
        if node is None or reader is None or self._depth == _DEEPEST:
            return SOMETHING
        if node not in self._done:
            self._budget.pay(_COST)
            self._done[node] = SOMETHING  # as long as it is being read: it is made of itself
            self._depth += 1
            self._done[node] = reader(node, scope)
            self._depth -= 1
        return self._done[node]

    def full_name(self, node: ast.AST, scope: PythonScope) -> str:
        """What a name means in full, ``os.path.join``; ``.join`` where it is of some object."""
        last: list[str] = []
        while isinstance(node, ast.Attribute) and len(last) < _MOST_PARTS:
            last.append(node.attr)
            node = node.value
        first = ""
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            self._budget.pay(len(found))
            imported = (each.value for each in found if isinstance(each.value, str))
            first = next(imported, "") if found else f"builtins.{node.id}"
        self._budget.pay(len(first) + sum(map(len, last)))
        return ".".join((first, *reversed(last)))

    def _read_any(self, nodes: Iterable[ast.AST | None], scope: PythonScope) -> Texts:
        return unite(self._budget, (self.fold(node, scope) for node in nodes))

    def _read_value(self, node: ast.NamedExpr | ast.Starred, scope: PythonScope) -> Texts:
        return self.fold(node.value, scope)

    def _read_list(self, node: ast.List | ast.Tuple | ast.Set, scope: PythonScope) -> Texts:
        return Several(self._read_any(node.elts, scope))

    def _read_filter(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: PythonScope
    ) -> Texts:
        return Several(self.fold(node.elt, scope))

    def _read_constant(self, node: ast.Constant, _: PythonScope) -> Texts:
        if isinstance(node.value, str):
            return one(node.value)
        return NOTHING if node.value is None else SOMETHING

    def _read_joined(self, node: ast.JoinedStr, scope: PythonScope) -> Texts:
        if len(node.values) > _MOST_PARTS:
            return SOMETHING
        parts = [self.fold(each, scope) for each in node.values]
        return combine(self._budget, lambda *texts: "".join(texts), *parts)

    def _read_formatted(self, node: ast.FormattedValue, scope: PythonScope) -> Texts:
        plain = node.format_spec is None and node.conversion == -1
        return self.fold(node.value, scope) if plain else SOMETHING

    def _read_operation(self, node: ast.BinOp, scope: PythonScope) -> Texts:
        left, right = self.fold(node.left, scope), self.fold(node.right, scope)
        if isinstance(node.op, ast.Div):
            return combine(self._budget, ntpath.join, left, right)
        if not isinstance(node.op, ast.Add):
            return SOMETHING
        if isinstance(left, Several) or isinstance(right, Several):
            return unite(self._budget, (left, right))
        return combine(self._budget, str.__add__, left, right)

    def _read_name(self, node: ast.Name, scope: PythonScope) -> Texts:
        if bound := scope.find(node.id):
            self._budget.pay(_COST * len(bound))
            found = scope.read(node)
            return unite(self._budget, map(self._read_binding, found)) if found else SOMETHING
        if node.id == "__path__":
            return Several(self._library.change("os.path.dirname", self._file))
        return self._file if node.id == "__file__" else SOMETHING

    def _read_binding(self, binding: Binding) -> Texts:
        value, scope = binding.value, binding.place.scope
        if isinstance(value, Parameter):
            return self._read_parameter(value)
        if isinstance(value, Grown):
            found = self.fold(value.more, scope)
            return found if isinstance(found, Several) or not found else SOMETHING
        return NAMES.get(value, SOMETHING) if isinstance(value, str) else self.fold(value, scope)

    def _read_parameter(self, parameter: Parameter) -> Texts:
        """What the callers in the file give, if there are some."""
        if parameter not in self._done:
            self._done[parameter] = SOMETHING
            if calls := self._names.callers.get(parameter.function.name):
                found = (self._read_argument(node, scope, parameter) for node, scope in calls)
                self._done[parameter] = unite(self._budget, found)
        return self._done[parameter]

    def _read_argument(self, call: ast.Call, scope: PythonScope, parameter: Parameter) -> Texts:
        about, inner = parameter.function.args, self._names.inner[parameter.function]
        places = [each.arg for each in (*about.posonlyargs, *about.args)]
        only = [each.arg for each in about.kwonlyargs]
        self._budget.pay(_COST + len(places) + len(only) + len(call.args) + len(call.keywords))
        if any(isinstance(each, ast.Starred) for each in call.args):
            return SOMETHING
        given = {each.arg: each.value for each in call.keywords}
        given.update(zip(places, call.args, strict=False))
        if parameter.name in given:
            return self.fold(given[parameter.name], scope)
        defaults: dict[str, ast.expr | None] = dict(zip(only, about.kw_defaults, strict=True))
        defaults.update(zip(reversed(places), reversed(about.defaults), strict=False))
        return self.fold(defaults.get(parameter.name), inner)

    def _read_attribute(self, node: ast.Attribute, scope: PythonScope) -> Texts:
        if node.attr == "parent":
            return self._library.change(".parent", self.fold(node.value, scope))
        name = self.full_name(node, scope)
        if node.attr not in {"__file__", "__path__"}:
            return NAMES.get(name, SOMETHING)
        place = self._places.module(name.rpartition(".")[0])
        if place is None:
            return SOMETHING
        return one(place) if node.attr == "__file__" else Several(one(ntpath.dirname(place)))

    def _read_subscript(self, node: ast.Subscript, scope: PythonScope) -> Texts:
        value = node.value
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(value, ast.Attribute) and value.attr == "parents" and isinstance(index, int):
            texts = self.fold(value.value, scope)
            for _ in range(min(index, _MOST_PARTS) + 1):
                texts = self._library.change(".parent", texts)
            return texts
        if isinstance(value, ast.Call) and value.args and index == 0:
            first = self.fold(value.args[0], scope)
            if self.full_name(value.func, scope) == "os.path.split":
                return self._library.change("os.path.dirname", first)
        texts = self.fold(value, scope)
        if isinstance(texts, Several):
            return frozenset(texts) or SOMETHING  # somebody fills a list that is always empty
        return SOMETHING if texts else NOTHING

    def _read_call(self, node: ast.Call, scope: PythonScope) -> Texts:
        name, func = self.full_name(node.func, scope), node.func
        if isinstance(func, ast.Name) and not name:
            return unite(self._budget, map(self._call_bound, scope.find(func.id)))
        if len(node.args) > _MOST_PARTS or any(isinstance(e, ast.Starred) for e in node.args):
            return SOMETHING
        given = [self.fold(each, scope) for each in node.args]
        if isinstance(func, ast.Attribute) and name.startswith("."):
            return self._library.call_method(func.attr, self.fold(func.value, scope), given)
        return self._library.call(name, given)

    def _call_bound(self, binding: Binding) -> Texts:
        """What a function of the file returns."""
        if not isinstance(binding.value, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return SOMETHING
        inner = self._names.inner[binding.value]
        return self._read_any(inner.returned, inner)
