"""Says what the module of a Python file binds, by one pass of the parser.

The pass makes a table of symbols and no tree of objects: it takes half the time of ``ast.parse``,
60 ms for a megabyte.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.model.python_modules import ModuleNames
from binary_checks.python_code.limited_parsing import is_large, try_parsing
from binary_checks.python_code.parsing import (
    FaultyError,
    LeftAloneError,
    ParsingBudget,
    admit,
    decode,
)

_SYMBOL = 16  # what it costs to ask for one
_STAR = re.compile(r"^[ \t]*from[ \t]*(\S+)[ \t]+import[ \t]*\*", re.MULTILINE)
_OPAQUE = re.compile(
    r"globals\(\)|locals\(\)|vars\(\)|sys\.modules|\bexec\(|\bsetattr\(|__dict__|__path__"
)
_SHARES = re.compile(r"\bextend_path\b|\bdeclare_namespace\b|\b__path__\b")
_CODE = re.compile(r"^[^\s#]", re.MULTILINE)


class SourceTable(NamedTuple):
    """A file that compiles, and its symbols."""

    text: str
    symbols: symtable.SymbolTable


def tabulate(content: bytes, budget: ParsingBudget) -> SourceTable:
    """Have the parser read a file.

    Raises FaultyError where it does not compile on this Python, LeftAloneError where it takes too
    much to find out.
    """
    size = admit(content, budget)
    try:
        text = decode(content)
        if is_large(size):
            try_parsing(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return SourceTable(text, symtable.symtable(text, "", "exec"))
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, or another encoding
        raise FaultyError(str(error)) from None
    except (RecursionError, MemoryError):
        raise LeftAloneError("it is nested too deeply for the parser") from None


def read_names(path: str, table: SourceTable, budget: ParsingBudget) -> ModuleNames:
    """Return what the module binds, wherever at its top level. Raises LeftAloneError."""
    bound = frozenset(_list_bound(table.symbols, budget))
    opaque = _OPAQUE.search(table.text)
    return ModuleNames(
        path=path,
        bound=bound,
        opaque="__getattr__" if "__getattr__" in bound else opaque[0] if opaque else "",
        stars=tuple(dict.fromkeys(_STAR.findall(table.text))),
        extends_path=_SHARES.search(table.text) is not None,
        has_code=bool(bound) or _has_code(table.text),
    )


def _list_bound(table: symtable.SymbolTable, budget: ParsingBudget) -> Iterator[str]:
    for symbol in _list_symbols(table, budget):
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
            yield symbol.get_name()
    below = [*table.get_children()]
    while below:
        inner = below.pop()
        below += inner.get_children()
        for symbol in _list_symbols(inner, budget):
            if symbol.is_declared_global() and symbol.is_assigned():
                yield symbol.get_name()


def _list_symbols(table: symtable.SymbolTable, budget: ParsingBudget) -> list[symtable.Symbol]:
    """The symbols of a scope, for each of which the library goes over all scopes in it."""
    budget.pay(len(table.get_identifiers()) * (_SYMBOL + len(table.get_children())))
    return table.get_symbols()


def _has_code(text: str) -> bool:
    """Whether a module does anything, beside comments and a docstring."""
    if _CODE.search(text) is None:
        return False
    try:
        body = ast.parse(text[: 1 << 16]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return any(not _is_text(statement) for statement in body)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
