"""Tells apart, in a Python file, what is code and what is only text: comments and docstrings."""

from __future__ import annotations

import re

# Each ends with the file at last, so that nothing is tried twice.
_TEXT = re.compile(
    rb"""
    \#[^\n]*
    | \"{3} (?: [^"\\]+ | \\. | "(?!"") )* (?: \"{3} | \\?\Z )
    | '{3} (?: [^'\\]+ | \\. | '(?!'') )* (?: '{3} | \\?\Z )
    | ( " (?: [^"\\\n]+ | \\. )* (?: " | (?=\n) | \\?\Z )
      | ' (?: [^'\\\n]+ | \\. )* (?: ' | (?=\n) | \\?\Z ) )
    """,
    re.DOTALL | re.VERBOSE,
)


def without_texts(code: bytes) -> bytes:
    """A file without its comments and its strings in three quotes."""
    return _TEXT.sub(rb"\1", code)
