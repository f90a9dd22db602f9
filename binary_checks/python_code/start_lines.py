"""Lines of code in ``.pth`` files, which Python runs at each start; they are followed, not run."""

from __future__ import annotations

import ast
import builtins
import os
import sys

from binary_checks.python_code.parsing import FaultyError, LeftAloneError, parse

_PLAIN_MODULES = {"os": os, "sys": sys}  # neither is a package: all of their names are known here
# names that a line finds in the function of Python's module ``site`` that runs it
_GIVEN = frozenset({*_PLAIN_MODULES, "sitedir", *vars(builtins)})
_ENDS = frozenset({"sys.exit", "os._exit", "os.abort", "os.kill"})
_IMPORTS = frozenset({"__import__", "importlib.import_module"})
# Functions that do not fail as ``.pth`` files call them: for namespaces (in ``*-nspkg.pth``, which
# setuptools wrote for many years), and to read a variable of the environment.
_SAFE = frozenset(
    {"ModuleType", "_getframe", "append", "dirname", "exists", "find_spec", "get", "getenv", "join"}
    | {"module_from_spec", "setdefault"}
)
_CHOICES = (ast.BoolOp, ast.IfExp, ast.If, ast.Try)
_FOLLOWED = (
    *(ast.Module, ast.Expr, ast.Assign, ast.Pass, ast.Constant, ast.Tuple, ast.List, ast.Starred),
    *(ast.keyword, ast.Compare, ast.cmpop, ast.UnaryOp, ast.unaryop, ast.expr_context, *_CHOICES),
)
_LEFT_OUT = (ast.boolop, ast.ExceptHandler, ast.alias)


class StartLine:
    """The modules that a line imports, and whether Python starts with it."""

    def __init__(self, line: str) -> None:
        """Follow a line."""
        self.modules: list[str] = []  # imported whatever happens
        self.chosen: list[str] = []  # imported under a condition, or under ``try``
        self.fault = ""  # what it does to every start of Python
        self.unfollowed = ""  # code that may fail
        self._bound = set(_GIVEN)
        self._others = set[str]()  # names of modules of packages, and of what they provide
        try:
            self._follow(parse(line.encode()), self.modules)
        except FaultyError as error:
            self.fault = f"does not compile: {error}".partition(" (<")[0]
        except (LeftAloneError, RecursionError) as error:
            self.unfollowed = str(error)

    def _follow(self, node: ast.AST, modules: list[str]) -> None:
        """Follow a piece of code; ``modules`` is the list for what it imports."""
        if not self._is_sure(node, modules):
            self.unfollowed = self.unfollowed or ast.unparse(node)
            return
        parts = [each for each in ast.iter_child_nodes(node) if not isinstance(each, _LEFT_OUT)]
        for part in parts:
            # the first part of a choice is its condition
            certain = part is parts[0] and not isinstance(node, ast.Try)
            chosen = isinstance(node, _CHOICES) and not certain
            self._follow(part, self.chosen if chosen else modules)

    def _is_sure(self, node: ast.AST, modules: list[str]) -> bool:
        """Return whether the node itself does not fail, its parts left aside."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._is_sure_import(node, modules)
        if isinstance(node, ast.Call):
            return self._is_sure_call(node, modules)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self._bound.add(node.id)
        elif isinstance(node, ast.Name):
            return node.id in self._bound
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return _has(ast.unparse(node.value), node.attr)
        elif isinstance(node, ast.Subscript):  # sys._getframe(1).f_locals['sitedir']
            return getattr(node.value, "attr", "") == "f_locals"
        return isinstance(node, (ast.Name, *_FOLLOWED))

    def _is_sure_import(self, node: ast.Import | ast.ImportFrom, modules: list[str]) -> bool:
        source = node.module if isinstance(node, ast.ImportFrom) else None
        for alias in node.names:
            modules.append(source or alias.name)
            top, _, below = f"{source}.{alias.name}".removeprefix("None.").partition(".")
            name = alias.asname or (alias.name if source else top)
            self._bound.add(name)
            if top not in sys.stdlib_module_names:
                self._others.add(name)
            elif below and not _has(top, below.partition(".")[0]):
                return False
        return not getattr(node, "level", 0)  # a line is in no package

    def _is_sure_call(self, call: ast.Call, modules: list[str]) -> bool:
        """Return whether a call is safe; a function of a package is as safe as its import."""
        name, text = ast.unparse(call.func), _read_text(call)
        root: ast.AST = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if text and name in _IMPORTS:
            modules.append(text)
        elif text and name == "exec":
            self._follow(parse(text.encode("utf-8", "surrogatepass")), modules)
        elif name in _ENDS and modules is self.modules:
            self.fault = self.fault or f"ends Python: {ast.unparse(call)}"
        elif isinstance(root, ast.Call):  # __import__("demo").start()
            return _read_text(root).partition(".")[0] not in sys.stdlib_module_names
        else:
            return name.rpartition(".")[2] in _SAFE or getattr(root, "id", "") in self._others
        return True


def _read_text(call: ast.Call) -> str:
    """Return the first argument if it is a literal text, else ""."""
    value = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _has(module: str, name: str) -> bool:
    return module not in _PLAIN_MODULES or hasattr(_PLAIN_MODULES[module], name)
