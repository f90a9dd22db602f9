"""Turns facts of the model into JSON values, from which `decoding` makes the same facts again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any

_PLAIN = (str, int, float, bool, type(None))
_COMMANDS = re.compile(
    "[:#](?=[:#])|(?:(?<=section_start)|(?<=section_end)|(?<=travis_fold)|(?<=travis_time)):",
    re.IGNORECASE,
)
"""The letters without which a command of `binary_checks.lines` is none."""


def encode(value: Any) -> Any:
    """The value as JSON has it: of a fact the fields that are not at their default."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if is_dataclass(value):
        return encode_fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: encode(item) for name, item in value.items()}
    return value.name if isinstance(value, PurePath) else str(value)


def encode_fields(fact: Any) -> dict[str, Any]:
    """The fields of a fact that are not at their default."""
    row = {}
    kind: Any = type(fact)
    for name, default in _defaults(kind):
        value = getattr(fact, name)
        if default is MISSING or value != default:
            row[name] = value if type(value) is str else encode(value)
    return row


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in fields(kind))


def dump(value: object) -> str:
    """JSON in ASCII, in which nothing commands a build service whose log it ends in.

    Outside of texts JSON has none of these, and inside of them an escape says the same.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dump_rows(rows: Iterable[Any]) -> Iterator[str]:
    """What stands between the brackets of an array, a row a line."""
    separator = ""
    for row in rows:
        yield f"{separator}\n{dump(row)}"
        separator = ","
    yield "\n"
