"""Tells apart, in a Python file, what is code and what is only text: comments and docstrings."""

from __future__ import annotations

import re

# Each ends with the file at last, so that nothing is tried twice.
_LONG = rb"""(?:
    \"{3} (?: [^"\\]+ | \\. | "(?!"") )* (?: \"{3} | \\?\Z )
    | '{3} (?: [^'\\]+ | \\. | '(?!'') )* (?: '{3} | \\?\Z )
)"""
_SHORT = rb"""(?:
    " (?: [^"\\\n]+ | \\(?: \r\n | . ) )* (?: " | (?=\n) | \\?\Z )
    | ' (?: [^'\\\n]+ | \\(?: \r\n | . ) )* (?: ' | (?=\n) | \\?\Z )
)"""
_FORMATTED = rb"(?: (?<=[fFtT]) | (?<=[fFtT][rR]) )"  # code is in braces there
_TEXT = re.compile(
    rb"\#[^\r\n]* | ( %b %b ) | %b | ( %b )" % (_FORMATTED, _LONG, _LONG, _SHORT),
    re.DOTALL | re.VERBOSE,
)


def without_texts(code: bytes) -> bytes:
    """A file without its comments and its strings in three quotes, if these hold no code."""
    return _TEXT.sub(rb"\1\2", code)
