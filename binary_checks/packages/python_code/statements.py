"""Follows the statements of a Python file without running it, to see which DLLs it looks for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from binary_checks.packages.python_code.functions import ADDS, OPENS, Functions
from binary_checks.packages.python_code.places import Places
from binary_checks.packages.python_code.values import (
    NONE,
    UNKNOWN,
    Dotted,
    Function,
    Scope,
    Values,
    elements,
    known,
    truth,
    unite,
)

_PASSES = 3  # through a loop, until nothing new is found
_DEEPEST = 8  # functions that call one another until one looks for DLLs
_MOST_ROUNDS = 64  # of a loop whose condition is known each time

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Statements(Functions):
    """One file: every branch is followed that Windows may take."""

    def __init__(self, path: str, places: Places, steps: int) -> None:
        super().__init__(path, places, steps)
        self._pending: dict[ast.AST, Function] = {}
        self._runners: dict[type[ast.stmt], Callable[..., bool]] = {
            ast.If: self._run_if,
            ast.For: self._run_for,
            ast.AsyncFor: self._run_for,
            ast.While: self._run_while,
            ast.Try: self._run_try,
            ast.With: self._run_with,
            ast.AsyncWith: self._run_with,
            ast.Return: self._run_return,
            ast.Match: self._run_match,
            **dict.fromkeys((ast.Raise, ast.Break, ast.Continue), lambda *_: True),
        }
        self._doers: dict[type[ast.stmt], Callable[..., object]] = {
            ast.Expr: lambda node, scope: self.read(node.value, scope),
            ast.Assert: lambda node, scope: self.read(node.test, scope),
            ast.Assign: self._do_assign,
            ast.AnnAssign: self._do_annotated,
            ast.AugAssign: self._do_augmented,
            ast.Import: self._do_import,
            ast.ImportFrom: self._do_import_from,
            ast.FunctionDef: self._do_define,
            ast.AsyncFunctionDef: self._do_define,
            ast.ClassDef: self._do_class,
            ast.Global: self._do_share,
            ast.Nonlocal: self._do_share,
        }

    def run_file(self, tree: ast.Module) -> None:
        """Follow the module, then the functions in which DLLs are looked for and nobody called."""
        scope = Scope({})
        relevant = _find_relevant(tree)
        self.run(tree.body, scope)
        while left := [node for node in self._pending if node in relevant - self.called]:
            for node in left:
                function = self._pending.pop(node)
                self.enter(function, (), {}, missing=UNKNOWN)

    def run(self, statements: Iterable[ast.stmt], scope: Scope) -> bool:
        """Follow a block; True where what stands behind it is not reached."""
        for statement in statements:
            self.pay(1)
            if (do := self._doers.get(type(statement))) is not None:
                do(statement, scope)
            elif (runner := self._runners.get(type(statement))) and runner(statement, scope):
                return True
        return False

    def _copy(self, scope: Scope) -> dict[str, Values]:
        self.pay(len(scope.names) // 8)
        return dict(scope.names)

    def _branch(self, scope: Scope, blocks: Iterable[Sequence[ast.stmt]]) -> bool:
        """Follow each block from here; what any of them left behind may be."""
        before = self._copy(scope)
        ends: list[dict[str, Values]] = []
        for block in blocks:
            scope.names = dict(before)
            if not self.run(block, scope):
                ends.append(scope.names)
        scope.names = _merge(ends) if ends else before
        return not ends

    def _run_if(self, node: ast.If, scope: Scope) -> bool:
        answer = truth(self.read(node.test, scope))
        if answer is None:
            return self._branch(scope, (node.body, node.orelse))
        return self.run(node.body if answer else node.orelse, scope)

    def _run_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
        given = elements(self.read(node.iter, scope))
        if given:
            self._repeat(node.body, scope, lambda: self.assign(node.target, given, scope))
        self._branch(scope, (node.orelse, ()))
        return False

    def _run_while(self, node: ast.While, scope: Scope) -> bool:
        for _ in range(_MOST_ROUNDS):
            if (answer := truth(self.read(node.test, scope))) is not True:
                break
            if self.run(node.body, scope):
                return False
        if answer is not False:
            self._repeat(node.body, scope, lambda: self.read(node.test, scope))
        return False

    def _repeat(self, body: Sequence[ast.stmt], scope: Scope, begin: Callable[[], object]) -> None:
        """Follow a loop until its names have no new values; those that still get some are lost."""
        for _ in range(_PASSES):
            before = self._copy(scope)
            begin()
            self.run(body, scope)
            scope.names = _merge((before, scope.names))
            if scope.names == before:
                return
        changed = (name for name in scope.names if scope.names[name] != before.get(name))
        scope.names.update({name: unite((scope.names[name], UNKNOWN)) for name in changed})

    def _run_try(self, node: ast.Try, scope: Scope) -> bool:
        before = self._copy(scope)
        body_ends = self.run((*node.body, *node.orelse), scope)
        after = scope.names
        ends = [] if body_ends else [after]
        for handler in node.handlers:
            scope.names = _merge((before, after))
            if not self.run(handler.body, scope):
                ends.append(scope.names)
        scope.names = _merge(ends) if ends else after
        return self.run(node.finalbody, scope) or not ends

    def _run_with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        for item in node.items:
            values = self.read(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, values, scope)
        return self.run(node.body, scope)

    def _run_match(self, node: ast.Match, scope: Scope) -> bool:
        self.read(node.subject, scope)
        return self._branch(scope, (*(case.body for case in node.cases), ()))

    def _run_return(self, node: ast.Return, scope: Scope) -> bool:
        values = self.read(node.value, scope) if node.value else NONE
        scope.returned = unite((scope.returned, values))
        return True

    def _do_assign(self, node: ast.Assign, scope: Scope) -> None:
        values = self.read(node.value, scope)
        for target in node.targets:
            self.assign(target, values, scope)

    def _do_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.read(node.value, scope), scope)

    def _do_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        if isinstance(node.target, ast.Name):
            sum_of_both = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            self.bind(node.target.id, self.read(sum_of_both, scope), scope)

    def _do_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self.bind(alias.asname or name, known(Dotted(name=name)), scope)

    def _do_import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        parts = self.package.split(".") if node.level else []
        parts = parts[: len(parts) + 1 - node.level] if node.level else parts
        base = ".".join((*parts, *filter(None, (node.module,))))
        for alias in node.names:
            values = self.attribute(known(Dotted(name=base)), alias.name)
            self.bind(alias.asname or alias.name, values, scope)

    def _do_define(self, node: _Definition, scope: Scope) -> None:
        function = Function(node, scope)
        self._pending[node] = function
        self.bind(node.name, known(function), scope)

    def _do_class(self, node: ast.ClassDef, scope: Scope) -> None:
        self.run(node.body, Scope({}, scope))
        self.bind(node.name, UNKNOWN, scope)

    def _do_share(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        scope.shared |= frozenset(node.names)


def _merge(ends: Iterable[dict[str, Values]]) -> dict[str, Values]:
    """What each name may be where branches meet again."""
    merged: dict[str, Values] = {}
    for names in ends:
        for name, values in names.items():
            there = merged.get(name)
            merged[name] = values if there is None else unite((there, values))
    return merged


def _find_relevant(tree: ast.Module) -> frozenset[ast.AST]:
    """The functions in which DLLs are looked for, and those that mention one of these."""
    mentions = _find_mentions(tree)
    wanted: set[str] = {*ADDS, *OPENS}
    for _ in range(_DEEPEST):
        found = frozenset(node for node, names in mentions.items() if names & wanted)
        names = {node.name for node in found if isinstance(node, _Definition)}
        if names <= wanted:
            return found
        wanted |= names
    return frozenset(mentions)


def _find_mentions(tree: ast.Module) -> dict[ast.AST, set[str]]:
    """The names in each function, of those inside it only their own names."""
    mentions: dict[ast.AST, set[str]] = {}
    left: list[tuple[ast.AST, set[str]]] = [(tree, set())]
    while left:
        node, names = left.pop()
        names.add(_mentioned(node))
        inside = mentions.setdefault(node, set()) if isinstance(node, _Definition) else names
        left.extend((child, inside) for child in ast.iter_child_nodes(node))
    return mentions


def _mentioned(node: ast.AST) -> str:
    if isinstance(node, _Definition):
        return node.name
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):  # of getattr
        return node.value if isinstance(node.value, str) and node.value in ADDS else ""
    return node.id if isinstance(node, ast.Name) else ""
