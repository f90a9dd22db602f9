"""Parses a Python file that a stranger wrote, within a budget, or leaves it alone."""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import warnings
from io import BytesIO
from itertools import pairwise

_ENCODINGS = frozenset(
    {"utf-8", "utf8", "utf-8-sig", "iso-8859-1", "latin1", "ascii", "us-ascii"}
    | {"cp1252", "windows-1252"}
)
"""Those that take linear time and spell ASCII as it is: neither do punycode and utf-7."""
_MOST_TOKENS = 20_000  # of one statement, where a parser may break off the process


_MANY_DOTS = 8_000
_LONG_NAME = re.compile(rb"(?<![\w.])(?:\w+[\s\\]*\.[\s\\]*){1000}")
"""Of ``import a.a.a`` the parser keeps every beginning: 40,000 parts take 1.7 GB."""


class LeftAloneError(Exception):
    """A file is not followed: it is no Python, or would cost too much."""


class ParsingBudget:
    """How much the Python files of one package may still cost, in looks and characters."""

    def __init__(self, left: int) -> None:
        self.left = left

    def pay(self, cost: int) -> None:
        """Pay for what is done next; LeftAloneError, then and ever after, where it is too much."""
        self.left -= cost
        if self.left < 0:
            raise LeftAloneError


def parse(content: bytes) -> ast.Module:
    """Parse a file; what the parser would warn of concerns nobody here."""
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
    """The text of a file, as Python decodes it.

    Raises SyntaxError or UnicodeDecodeError where Python does, LeftAloneError for an encoding that
    nobody has to take the time for.
    """
    encoding = tokenize.detect_encoding(BytesIO(content).readline)[0].lower()
    if encoding not in _ENCODINGS:
        raise LeftAloneError(f"its encoding {encoding} is not read")
    if content.count(b".") > _MANY_DOTS and _LONG_NAME.search(content):
        raise LeftAloneError("it has a name of a thousand parts")
    return content.decode(encoding)


def _refuse_long_statements(content: bytes) -> None:
    """Raise ValueError where Python 3.10 could overflow its stack: ``a.b.b.b`` without end."""
    ends = [0]
    try:
        for number, token in enumerate(tokenize.tokenize(BytesIO(content).readline)):
            if token.type == tokenize.NEWLINE:
                ends.append(number)
        ends.append(number)
    except tokenize.TokenError as error:
        raise ValueError(error) from None
    if any(end - start > _MOST_TOKENS for start, end in pairwise(ends)):
        raise ValueError(_MOST_TOKENS)
