"""Reading TOML, converting its values to declared types, and writing its strings."""

from __future__ import annotations

import codecs
import re
import sys
import types
import typing
import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from binary_checks.declaring import Pattern
from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.profile.toml_lines import Located, locate_strings
from binary_checks.safe_text import cut, one_line

_LARGEST = 16 << 20  # bytes of a file
_DEEP_KEY = re.compile(
    rb"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""", re.ASCII
)
"""A key with that many parts takes quadratic time to parse: minutes for 100 kB."""
_BITS = 64
"""TOML has no larger numbers, and Python refuses to convert huge integers to float or text."""


def read_toml(path: Path, where: str) -> dict[str, Any]:
    """Return the tables of a file. Raises ProfileError, one line that begins with ``where``."""
    return parse_toml(read_named(path, _LARGEST, where), where)


def parse_toml(text: bytes, where: str) -> dict[str, Any]:
    """Return the tables of a text. Raises ProfileError, one line that begins with ``where``."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    if text.startswith(codecs.BOM_UTF8):
        raise ProfileError(
            f"{where}: not TOML: it begins with a byte order mark; save the file without one"
        )
    if _DEEP_KEY.search(text):
        raise ProfileError(f"{where}: not TOML: too deeply nested")
    try:
        decoded = text.decode("utf-8")
        return locate_strings(tomllib.loads(decoded), decoded, where)
    except (ValueError, RecursionError) as error:
        known = isinstance(error, (tomllib.TOMLDecodeError, UnicodeDecodeError))
        reason = (
            str(error).splitlines()[0] if known else "too deeply nested, or a number is too long"
        )
        raise ProfileError(f"{where}: not TOML: {reason}") from None


def reject_unknown(given: Iterable[str], known: Mapping[str, Any], where: str, noun: str) -> None:
    """Raise ProfileError for an unknown name; the message suggests the most similar known name."""
    for name in given:
        if name not in known:
            shown = f"{_show(name)}{hint(name, known)}"
            raise ProfileError(f"{locate(where, name)}: unknown {noun} {shown}")


def hint(name: str, known: Iterable[str]) -> str:
    """Return the question "did you mean …?" with the most similar known name, or ""."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def locate(where: str, name: str) -> str:
    """Return a place such as ``own.toml: cells[0]`` with a key's line: ``own.toml:3: cells[0]``.

    A name that is not from a TOML file leaves it as it is.
    """
    if not isinstance(name, Located):
        return where
    place = f"{name.source}:{name.line}"
    if not where.startswith(name.source):  # a key of a profile that this one extends
        return f"{where}: {place}"
    rest = re.sub(r"^:\d+(?=:|$)", "", where[len(name.source) :])
    return f"{place}{rest}"


def line_of_table(text: str) -> int:
    """Return the line of the table with this key or value; 0 if it is not from a TOML file."""
    return text.table_line if isinstance(text, Located) else 0


def convert_table(
    table: Mapping[str, Any],
    kinds: Mapping[str, Any],
    where: str,
    joint: str = ": ",
    *,
    noun: str = "key",
) -> dict[str, Any]:
    """Return a table with its values as the types of their keys.

    Raises ProfileError for an unknown key, and for a value of another type.
    """
    reject_unknown(table, kinds, where, noun)
    return {
        key: convert(value, kinds[key], f"{locate(where, key)}{joint}{key}")
        for key, value in table.items()
    }


def convert(value: Any, annotation: Any, where: str) -> Any:
    """Return a TOML value as the annotated type: integers may become floats, arrays become tuples.

    Tables keep their order. Raises ProfileError for a value of another type.
    """
    if type(value) is int and value.bit_length() >= _BITS:
        raise ProfileError(f"{where}: a number of more than {_BITS} bits")
    if annotation is Pattern:
        return _pattern(value, where)
    annotation = getattr(annotation, "__supertype__", annotation)  # the base type of a NewType
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        annotation = next(kind for kind in arguments if kind is not type(None))
        return convert(value, annotation, where)
    if origin is tuple and isinstance(value, list):
        return tuple(convert(item, arguments[0], where) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {
            key: convert(item, arguments[1], f"{locate(where, key)}.{key}")
            for key, item in value.items()
        }
    if annotation is float and type(value) is int:
        return float(value)
    if origin is not typing.Literal:
        _require_type(value, origin or annotation, where)
    elif not isinstance(value, str) or value not in arguments:
        known = ", ".join(filter(None, arguments))
        raise ProfileError(f"{where}: {_show(value)} is not one of: {known}")
    return value


def _require_type(value: Any, expected: Any, where: str) -> None:
    strict = {bool, datetime} - {expected} if expected is not object else ()
    if not isinstance(value, expected) or type(value) in strict:
        noun = {tuple: "array", dict: "table", Mapping: "table", list: "array of tables"}.get(
            expected, expected.__name__
        )
        article = "an" if noun[0] in "aeiou" else "a"
        raise ProfileError(f"{where}: {_show(value)} is not {article} {noun}")


def _pattern(value: Any, where: str) -> Pattern:
    text: str = convert(value, str, where)
    try:
        # about syntax that a later Python may interpret differently
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ProfileError(f"{where}: {_show(text)} is not a regular expression: {error}") from None
    return Pattern(text)


def _show(value: Any) -> str:
    try:
        return cut(repr(value), 100)
    # a number of thousands of digits, or a structure that contains itself
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"


def quote_toml(text: str) -> str:
    """Return a basic string of TOML with escapes for all active characters.

    Active characters control a terminal, or are the colon or bracket in commands to build services.
    """
    active = "" if one_line(text) == text else ":["
    return f'"{"".join(_escape_character(char, active) for char in text)}"'


def _escape_character(char: str, active: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    plain = char not in active and one_line(char) == char
    return char if plain else f"\\U{ord(char):08X}"
