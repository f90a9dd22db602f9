"""Turns facts of the model into JSON values, from which `decoding` makes the same facts again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any

_COMMANDS = re.compile(
    "[:#](?=[:#])|:(?:(?<=section_start:)|(?<=section_end:)|(?<=travis_fold:)|(?<=travis_time:))",
    re.IGNORECASE,
)
"""The letters without which a command of `binary_checks.lines` is none.

Each way begins with such a letter, by which a text without any is passed over five times as fast.
"""


def encode(value: Any) -> Any:
    """The value as JSON has it: of a fact the fields that are not at their default."""
    kind: Any = type(value)
    return _encoder(kind)(value)


def encode_fields(fact: Any, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a fact that are not at their default, without those that are left out."""
    kind: Any = type(fact)
    return _record_encoder(kind, frozenset(left_out))(fact)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any]:
    """What encodes values of that class: there may be 100,000 of one."""
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, (str, int, float, bool, type(None))):
        return lambda value: value
    if issubclass(kind, tuple):
        return lambda value: [encode(item) for item in value]
    if is_dataclass(kind):
        record: Any = kind
        return _record_encoder(record, frozenset())
    if issubclass(kind, Mapping):
        return lambda value: {name: encode(item) for name, item in value.items()}
    return (lambda value: value.name) if issubclass(kind, PurePath) else str


@cache
def _record_encoder(kind: Any, left_out: frozenset[str]) -> Callable[[Any], dict[str, Any]]:
    stated = [part for part in fields(kind) if part.init]
    parts = [(part.name, part.default) for part in stated if part.name not in left_out]

    def encode_record(fact: Any) -> dict[str, Any]:
        row = {}
        for name, default in parts:
            value = getattr(fact, name)
            if value is not default and (default is MISSING or value != default):
                row[name] = value if type(value) is str else encode(value)
        return row

    return encode_record


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
