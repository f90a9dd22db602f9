"""Limits on the Python code of a package, its parsing, and the names that its modules bind.

A package may be malicious, and the parser cannot be interrupted while it reads a file. A file takes
up to 930 bytes of memory for each token, and 1,550 if there is an error, since the parser then
reads the file again. Some files take more than their length suggests: many names times many scopes,
``import`` of a name with many parts, identifiers with many combining marks, and before Python 3.12
f-strings with many fields. Each of these is limited here for one file, so that the watchdog, which
limits all files of a package together, waits for less than a second.
"""

from __future__ import annotations

import ast
import re
import string
import symtable
import sys
import tokenize
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import NamedTuple, TypeVar

from binary_checks.model import ModuleNames
from binary_checks.watchdog import ask

_Parsed = TypeVar("_Parsed")

_ENCODINGS = frozenset(
    {"utf-8", "utf8", "utf-8-sig", "iso-8859-1", "latin1", "ascii", "us-ascii"}
    | {"cp1252", "windows-1252"}
)
"""Encodings that are decoded in linear time and contain ASCII, unlike punycode and utf-7."""
# bytes of a file; the largest that an entry point of 340 published wheels leads to has 275,372
LONGEST = 1 << 20
_MOST_TOKENS = (
    290_000  # tokens of a file; the largest of those has 63,681, as they are counted here
)
# names times scopes of a file: each product takes 100 bytes, and symtable 50 ns; those have 2.2
# million at most
_MOST_CROSSINGS = 4_000_000
# fields times bytes of a file: before Python 3.12, each product takes 0.25 ns
_MOST_FIELDS = 1 << 33
_MOST_MARKS = 10_000  # combining marks, which the parser sorts in quadratic time

_SIGNS = string.punctuation.replace("_", "").encode() + b"\n"
_TO_BLANKS = bytes.maketrans(_SIGNS, b" " * len(_SIGNS))
_SCOPES = (b"lambda", b"def", b"class", b"for", b"type ")
_LONG_NAME = re.compile(rb"(?<![\w.])(?:\w+[\s\\]*\.[\s\\]*){32}")
"""A long dotted name: for ``import a.a.a`` the parser keeps every prefix."""


class LeftAloneError(Exception):
    """A file is not followed: it is not Python, or would cost too much."""


class FaultyError(LeftAloneError):
    """A file does not compile."""


def parse(content: bytes) -> ast.Module:
    """Parse a file to a tree. Raises LeftAloneError, for each file that does not compile, too."""
    return _compile(content, ast.parse)


class SourceTable(NamedTuple):
    """A file that compiles, with its symbols."""

    text: str
    symbols: symtable.SymbolTable


def tabulate(content: bytes) -> SourceTable:
    """Parse a file into symbols, which takes half the time of a tree: 60 ms for a megabyte.

    Raises FaultyError if the file does not compile on this Python, LeftAloneError if the attempt
    would cost too much.
    """
    return _compile(content, lambda text: SourceTable(text, symtable.symtable(text, "", "exec")))


def _compile(content: bytes, make: Callable[[str], _Parsed]) -> _Parsed:
    """Parse a file within the limits, without the parser's warnings."""
    ask()
    _measure(content)
    try:
        text = _decode(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if sys.version_info < (3, 11):
                # For a tree that is nested too deeply (an endless ``a.b.b.b``), ast of Python 3.10
                # overflows the stack, which kills the process; symtable raises RecursionError.
                symtable.symtable(text, "", "exec")
            return make(text)
    except (SyntaxError, ValueError) as error:  # ValueError: NUL bytes, or another encoding
        raise FaultyError(str(error)) from None
    except (RecursionError, MemoryError):
        raise LeftAloneError("it is nested too deeply for the parser") from None


def _measure(content: bytes) -> None:
    """Count what the parser has to read. Raises LeftAloneError if a count exceeds its limit."""
    if len(content) > LONGEST:
        raise LeftAloneError(f"it has {len(content)} bytes; more than {LONGEST} are not parsed")
    words = content.translate(_TO_BLANKS).split()  # a word may be two tokens: ``1if``
    tokens = len(words) + len(content) - len(content.translate(None, _SIGNS))
    scopes = sum(map(content.count, _SCOPES))
    if tokens > _MOST_TOKENS:
        raise LeftAloneError(
            f"it has {tokens} words and signs; more than {_MOST_TOKENS} are not parsed"
        )
    if (
        len(set(words)) * scopes > _MOST_CROSSINGS
        or content.count(b"{") * len(content) > _MOST_FIELDS
    ):
        raise LeftAloneError("it has too many names in too many functions, or too many f-strings")
    if _LONG_NAME.search(content):
        raise LeftAloneError("it has a name of more than 32 parts")


def _decode(content: bytes) -> str:
    """Return the text of a file, as Python decodes it.

    Raises SyntaxError or UnicodeDecodeError if Python does. Raises LeftAloneError for an encoding
    that is slow to decode, and for more combining marks than the source of any language has.
    """
    encoding = tokenize.detect_encoding(BytesIO(content).readline)[0].lower()
    if encoding not in _ENCODINGS:
        raise LeftAloneError(f"its encoding {encoding} is not supported")
    text = content.decode(encoding)
    if not content.isascii() and sum(map(bool, map(unicodedata.combining, text))) > _MOST_MARKS:
        raise LeftAloneError(f"it has more than {_MOST_MARKS} combining marks")
    return text


# Names that the module in a Python file binds.

_STAR = re.compile(r"^[ \t]*from[ \t]*(\S+)[ \t]+import[ \t]*\*", re.MULTILINE)
_OPAQUE = re.compile(
    r"globals\(\)|locals\(\)|vars\(\)|sys\.modules|\bexec\(|\bsetattr\(|__dict__|__path__"
)
_FILLS = re.compile(
    r"sys\.modules(?:\.(?:setdefault|update)\(|\[(?!\s*__name__\s*\])[^\]\n]{1,200}\]\s*=(?!=))"
)
_SHARES = re.compile(r"\bextend_path\b|\bdeclare_namespace\b|\b__path__\b")


def read_names(path: str, table: SourceTable) -> ModuleNames:
    """Return the names that the module binds anywhere at its top level."""
    bound = frozenset(_list_bound(table.symbols))
    opaque = _OPAQUE.search(table.text)
    return ModuleNames(
        path=path,
        bound=bound,
        opaque="__getattr__" if "__getattr__" in bound else opaque[0] if opaque else "",
        stars=tuple(dict.fromkeys(_STAR.findall(table.text))),
        extends_path=_SHARES.search(table.text) is not None,
        fills_modules=_FILLS.search(table.text) is not None,
        has_code=bool(bound) or _has_code(table.text),
    )


def _list_bound(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
            yield symbol.get_name()
    below = [*table.get_children()]
    while below:
        inner = below.pop()
        below += inner.get_children()
        for symbol in inner.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                yield symbol.get_name()


def _has_code(text: str) -> bool:
    """Return whether a module contains anything besides comments and a docstring."""
    try:
        body = ast.parse(text[: 1 << 16]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return not all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body
    )
