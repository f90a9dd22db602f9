"""The only access to Python's parser for files of packages: each file's cost is limited first.

The parser is not made for files from strangers. It takes up to 930 bytes of memory for each token,
and 1,550 if there is an error, since the parser then reads the file again. Some files take more
than their length suggests: many names times many scopes, ``import`` of a name with many parts,
identifiers with many combining marks, and before Python 3.12 f-strings with many fields. All of
these are limited here.
"""

from __future__ import annotations

import ast
import json
import re
import string
import subprocess
import symtable
import sys
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from binary_checks.model import ModuleNames

_ENCODINGS = frozenset(
    {"utf-8", "utf8", "utf-8-sig", "iso-8859-1", "latin1", "ascii", "us-ascii"}
    | {"cp1252", "windows-1252"}
)
"""Encodings that are decoded in linear time and contain ASCII, unlike punycode and utf-7."""
LONGEST = 8 << 20  # bytes of a file; the largest in 645 wheels has 2.8 MB, moto's 4.7 MB
MOST_TOKENS = 650_000  # tokens of a file; casadi has 641,334, as this module counts
MOST_OF_TREE = 290_000  # tokens of a file that is parsed to a tree, or may have an error
MOST_CROSSINGS = 3_000_000  # names times nested scopes; each product takes 100 bytes
_DEEPEST_SCOPES = 1_500  # nested scopes; Python 3.13 accepts 1,400 nested lambdas
# tokens of a statement; more may overflow the parser's stack, which kills the process
_MOST_OF_STATEMENT = 20_000
_MOST_MARKS = 30  # consecutive combining marks, as in UAX #15's Stream-Safe Text Format
_CHUNK = 1 << 16  # bytes that are counted at once

TOKEN = 32  # cost of parsing a token; a byte costs 1, which is about 30 ns
_CROSSING = 2
_FIELDS = 7  # log2 of the product of characters and fields of an f-string that costs 1

_SIGNS = string.punctuation.replace("_", "").encode() + b"\n"
_TO_BLANKS = bytes.maketrans(_SIGNS, b" " * len(_SIGNS))
_SCOPES = (b"lambda", b"def", b"class", b"for", b"type ")
_LONG_NAME = re.compile(rb"(?<![\w.])(?:\w+[\s\\]*\.[\s\\]*){32}")
"""A long dotted name: for ``import a.a.a`` the parser keeps every prefix."""
_MOST_BEGINNINGS = 1 << 25  # product of bytes and dots up to which long names are harmless
_FORMATTED = re.compile(rb"(?<!\w)(?:[fFtT][rR]?|[rR][fFtT])['\"]")
_OPENED = re.compile(rb"(?<!\w)(?:[fF][rR]?|[rR][fF])\Z")
_FOREIGN = re.compile(rf"[^\x00-\x7f]{{{_MOST_MARKS + 1},}}")
_STRINGS = re.compile(
    rb"#[^\r\n]*|\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z)"
    rb"|\"[^\"\r\n]*\"?|'[^'\r\n]*'?"
)
"""Comments, and strings in which no quote is escaped."""


class LeftAloneError(Exception):
    """A file is not followed: it is not Python, or would cost too much."""


class FaultyError(Exception):
    """A file does not compile."""


class ParsingBudget:
    """The cost that the Python files of one package may still cause."""

    def __init__(self, left: int) -> None:
        self.left = left

    def pay(self, cost: int) -> None:
        """Subtract the cost of the next step.

        Raises LeftAloneError if the budget is exceeded, and again for every later step.
        """
        self.left -= cost
        if self.left < 0:
            raise LeftAloneError("parsing all sources of the package would cost too much")


class CodeSize(NamedTuple):
    """Counts of tokens and other parts of a file that cost the parser time, or upper bounds."""

    tokens: int
    names: int  # distinct names
    scopes: int  # functions, classes and comprehensions

    @property
    def crossings(self) -> int:
        """An upper bound for the names in all scopes of the symbol table."""
        return self.names * min(self.scopes, _DEEPEST_SCOPES)


def measure(content: bytes) -> CodeSize:
    """Count what the parser has to read. Raises LeftAloneError if a count exceeds its limit."""
    if len(content) > LONGEST:
        raise LeftAloneError(f"it has {len(content)} bytes; more than {LONGEST} are not parsed")
    scopes = sum(map(content.count, _SCOPES))
    size = _count(content, scopes)
    if size is None and not (_FORMATTED.search(content) or re.search(rb"\\[\r\n]", content)):
        size = _count(_leave_out_strings(content), scopes)
    if size is None:
        reason = f"it has more than {MOST_TOKENS} words and signs; longer files are not parsed"
        raise LeftAloneError(reason)
    return size


def _count(content: bytes, scopes: int) -> CodeSize | None:
    """Return the counts, or None if they are too large. A word may be two tokens: ``1if``."""
    tokens, names = len(content) >> 7, set[bytes]()
    for start in range(0, len(content), _CHUNK):
        piece = content[start : start + _CHUNK]
        words = piece.translate(_TO_BLANKS).split()
        names.update(words)
        tokens += len(words) + len(piece) - len(piece.translate(None, _SIGNS))
        if tokens > MOST_TOKENS + (len(content) >> 7):
            return None
    return CodeSize(tokens, len(names), scopes)


def _leave_out_strings(content: bytes) -> bytes:
    """Return the code without comments, and with a word in place of each string.

    The code must not contain f-strings.
    """
    for escaped in (b"\\\\", b"\\'", b'\\"'):
        content = content.replace(escaped, b"__")
    return _STRINGS.sub(b" s ", content, count=MOST_TOKENS)


def admit(content: bytes, budget: ParsingBudget) -> CodeSize:
    """Measure source code, and subtract the cost of parsing it from the budget.

    The caller has already subtracted the cost of reading it. Raises LeftAloneError.
    """
    size = measure(content)
    if len(content) * content.count(b".") > _MOST_BEGINNINGS and _LONG_NAME.search(content):
        raise LeftAloneError("it has a name of more than 32 parts")
    budget.pay(TOKEN * size.tokens + _CROSSING * size.names * size.scopes)
    if sys.version_info < (3, 12):
        budget.pay(_measure_formatted(content) >> _FIELDS)
    return size


def _measure_formatted(content: bytes) -> int:
    """Return the cost of f-strings: fields times length, since each field is scanned separately."""
    if _FORMATTED.search(content) is None:
        return 0
    spans = content.replace(b"\\\n", b"").split(b"\n")
    for quotes in (b'"""', b"'''"):
        escaped = content.replace(b"\\\\", b"__").replace(b"\\" + quotes[:1], b"__")
        parts = escaped.split(quotes)
        spans += [part for before, part in pairwise(parts) if _OPENED.search(before[-3:])]
    return sum(span.count(b"{") * len(span) for span in spans)


def parse(content: bytes, budget: ParsingBudget) -> ast.Module:
    """Parse a file, without the parser's warnings."""
    size = admit(content, budget)
    if size.tokens > MOST_OF_TREE:
        raise LeftAloneError(f"it has {size.tokens} words and signs, too many for a tree")
    try:
        text = decode(content)
        if sys.version_info < (3, 11):
            _refuse_long_statements(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LeftAloneError from None


def decode(content: bytes) -> str:
    """Return the text of a file, as Python decodes it.

    Raises SyntaxError or UnicodeDecodeError if Python does. Raises LeftAloneError for an encoding
    that is slow to decode, and for more consecutive combining marks than any language has: the
    parser sorts the marks in identifiers in quadratic time.
    """
    encoding = tokenize.detect_encoding(BytesIO(content).readline)[0].lower()
    if encoding not in _ENCODINGS:
        raise LeftAloneError(f"its encoding {encoding} is not supported")
    text = content.decode(encoding)
    for found in () if content.isascii() else _FOREIGN.finditer(text):
        marks = 0
        for character in found[0]:
            marks = marks + 1 if unicodedata.combining(character) else 0
            if marks > _MOST_MARKS:
                raise LeftAloneError(f"it has more than {_MOST_MARKS} combining marks in a row")
    return text


def _refuse_long_statements(content: bytes) -> None:
    """Raise ValueError if Python 3.10 could overflow its stack: an endless ``a.b.b.b``."""
    ends = [0]
    try:
        for number, token in enumerate(tokenize.tokenize(BytesIO(content).readline)):
            if token.type == tokenize.NEWLINE:
                ends.append(number)
        ends.append(number)
    except tokenize.TokenError as error:
        raise ValueError(error) from None
    if any(end - start > _MOST_OF_STATEMENT for start, end in pairwise(ends)):
        raise ValueError(_MOST_OF_STATEMENT)


# Parsing of large files in a separate process with limited memory.
#
# A file that parses there also parses in this process, in as much memory. For a file with an error,
# the parser would read the file again to find the error, and take twice as much.

_CHILD = Path(__file__).with_name("limited_parsing_child.py")
_MEMORY = 448 << 20  # bytes, including the interpreter's own
_SECONDS = 20  # seconds of processor time; the largest file in 645 wheels takes 0.5
_PATIENCE = 120  # seconds of wall time


def is_large(size: CodeSize) -> bool:
    """Return whether a file must be tried in a separate process; of 500 files in wheels, 1 must."""
    return size.tokens > MOST_OF_TREE or size.crossings > MOST_CROSSINGS


def try_parsing(text: str) -> None:
    """Parse a text into symbols in the separate process.

    Raises FaultyError if the text does not parse, LeftAloneError if parsing takes too much.
    """
    arguments = (str(_MEMORY), str(_SECONDS))
    command = [sys.executable, "-I", "-S", str(_CHILD), *arguments]
    try:
        ended = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_PATIENCE, check=False
        )
        fault = str(json.loads(ended.stdout)["fault"])
    except OSError as error:
        raise LeftAloneError(
            f"it cannot be parsed in a separate process: {error.strerror}"
        ) from None
    except (subprocess.TimeoutExpired, ValueError):
        limits = f"{_MEMORY >> 20} MiB or {_SECONDS} s"
        reason = f"parsing it takes more than {limits}, or it is nested too deeply"
        raise LeftAloneError(reason) from None
    if fault:
        raise FaultyError(fault)


# Names that the module in a Python file binds, found by one pass of the parser.
#
# The pass makes a table of symbols instead of a tree. It takes half the time of ``ast.parse``: 60
# ms for a megabyte.

_SYMBOL = 16  # cost of reading one symbol
_STAR = re.compile(r"^[ \t]*from[ \t]*(\S+)[ \t]+import[ \t]*\*", re.MULTILINE)
_OPAQUE = re.compile(
    r"globals\(\)|locals\(\)|vars\(\)|sys\.modules|\bexec\(|\bsetattr\(|__dict__|__path__"
)
_FILLS = re.compile(
    r"sys\.modules(?:\.(?:setdefault|update)\(|\[(?!\s*__name__\s*\])[^\]\n]{1,200}\]\s*=(?!=))"
)
_SHARES = re.compile(r"\bextend_path\b|\bdeclare_namespace\b|\b__path__\b")
_CODE = re.compile(r"^[^\s#]", re.MULTILINE)


class SourceTable(NamedTuple):
    """A file that compiles, with its symbols."""

    text: str
    symbols: symtable.SymbolTable


def tabulate(content: bytes, budget: ParsingBudget) -> SourceTable:
    """Parse a file into symbols.

    Raises FaultyError if the file does not compile on this Python, LeftAloneError if the attempt
    would cost too much.
    """
    size = admit(content, budget)
    try:
        text = decode(content)
        if is_large(size):
            try_parsing(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return SourceTable(text, symtable.symtable(text, "", "exec"))
    except (SyntaxError, ValueError) as error:  # ValueError: NUL bytes, or another encoding
        raise FaultyError(str(error)) from None
    except (RecursionError, MemoryError):
        raise LeftAloneError("it is nested too deeply for the parser") from None


def read_names(path: str, table: SourceTable, budget: ParsingBudget) -> ModuleNames:
    """Return the names that the module binds anywhere at its top level. Raises LeftAloneError."""
    bound = frozenset(_list_bound(table.symbols, budget))
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
    """Return the symbols of a scope, and subtract the cost from the budget.

    For each symbol, symtable visits all nested scopes.
    """
    budget.pay(len(table.get_identifiers()) * (_SYMBOL + len(table.get_children())))
    return table.get_symbols()


def _has_code(text: str) -> bool:
    """Return whether a module contains anything besides comments and a docstring."""
    if _CODE.search(text) is None:
        return False
    try:
        body = ast.parse(text[: 1 << 16]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return any(not _is_text(statement) for statement in body)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
