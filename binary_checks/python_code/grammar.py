"""Says whether a Python file compiles, and what its module binds, by one pass of the parser.

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

from binary_checks.model.python_modules import Minor, ModuleNames
from binary_checks.python_code.limited_parsing import is_large, try_parsing
from binary_checks.python_code.parsing import (
    FaultyError,
    LeftAloneError,
    ParsingBudget,
    admit,
    decode,
)

_SYMBOL = 16  # what it costs to ask for one
_OLDEST = (3, 7)  # of which ``ast.parse`` knows the grammar well enough

_HINTS = (
    ((3, 8), re.compile(rb":=|=\s*\}|/\s*[,):]")),
    ((3, 9), re.compile(rb"\bwith\s*\(")),
    ((3, 10), re.compile(rb"^[ \t]*match\b[^=\n]*:", re.MULTILINE)),
    ((3, 11), re.compile(rb"\bexcept\s*\*")),
)
"""What stands in every source that needs that Python; of each ``ast.parse`` tells. It knows
nothing of ``a[*b]`` (3.11), of decorators that are any expression (3.9) and of ``return *a, b``
(3.8)."""

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
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FaultyError(line, f"it is not valid {error.encoding}") from None
    except SyntaxError as error:
        reason = error.msg or "invalid syntax"
        raise FaultyError(error.lineno or 0, reason, error.text) from None
    except ValueError as error:  # null bytes
        raise FaultyError(0, str(error)) from None
    except (RecursionError, MemoryError):
        raise LeftAloneError("it is nested too deeply for the parser") from None


def find_newer(content: bytes, lowest: Minor, budget: ParsingBudget) -> FaultyError | None:
    """Find what the grammar of an older Python lacks in a file that compiles on this one.

    Raises LeftAloneError where that takes too much.
    """
    lowest = max(lowest, _OLDEST)  # what that one lacks, older ones lack too
    if not any(lowest < since and hint.search(content) for since, hint in _HINTS):
        return None
    size = admit(content, budget)
    try:
        text = decode(content)
        if is_large(size):
            try_parsing(text, minor=lowest[1])
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, feature_version=lowest)
    except FaultyError as error:
        return FaultyError(error.line, error.reason)
    except SyntaxError as error:
        return FaultyError(error.lineno or 0, error.msg or "invalid syntax")
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


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
