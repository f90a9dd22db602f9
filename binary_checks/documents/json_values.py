"""Conversion between facts of the model and JSON values, strictly by the types of their fields."""

from __future__ import annotations

import gzip
import json
import re
import types
import typing
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from sys import intern
from typing import Any, Final, NoReturn

from packaging.tags import Tag

from binary_checks.files import NotRegularError, open_regular
from binary_checks.model import Format, Symbol, Symbols, object_kinds

# Encoding facts as JSON values; decoding these values makes equal facts.

_COMMANDS = re.compile(
    "[:#](?=[:#])|:(?:(?<=section_start:)|(?<=section_end:)|(?<=travis_fold:)|(?<=travis_time:))",
    re.IGNORECASE,
)
"""Characters that start a command to a build service, see `binary_checks.safe_text`.

Each alternative begins with a single character, so that texts without these characters are scanned
five times as fast.
"""


def encode(value: Any) -> Any:
    """Return the value as JSON.

    A fact becomes an object of the fields that differ from defaults.
    """
    kind: Any = type(value)
    return _encoder(kind)(value)


def encode_fields(fact: Any, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a fact that differ from their defaults and are not left out."""
    kind: Any = type(fact)
    return _record_encoder(kind, frozenset(left_out))(fact)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any]:
    """Return the function that encodes values of a class; a document may have 100,000 of them."""
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
    """Return JSON in ASCII; characters by which CI services recognise commands are escaped.

    JSON has these characters only inside strings, where the escapes have the same meaning.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dump_rows(rows: Iterable[Any]) -> Iterator[str]:
    """Yield the contents of an array between its brackets, one row on each line."""
    separator = ""
    for row in rows:
        yield f"{separator}\n{dump(row)}"
        separator = ","
    yield "\n"


# Decoding JSON values as facts of the model, strictly by the types of their fields.

LARGEST: Final = 256 << 20  # bytes of a document; the facts of torch have 26 MB
_LIMIT = 1 << 64  # all numbers in facts are smaller
_MOST_PARTS = 10_000_000  # limit on the parts of a document; the facts of torch have 757,000
_MOST = 2_000_000  # limit on the length of a list; a library of 1 GB has 300,000 symbols
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w{0,40}", re.ASCII)
Decode = Callable[[Any], Any]


class DocumentError(Exception):
    """A value does not fit the model; the text states where and why.

    The place is written as in JSONPath: ``$.packages[0].entries[3].seconds``.
    """

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason, place)
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        return f"${self.place}: {self.reason}" if self.place else self.reason

    def within(self, part: str | int) -> DocumentError:
        """Return the error with its place extended by that key or index of the enclosing value."""
        if isinstance(part, int):
            step = f"[{part}]"
        else:
            step = f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{_show(part)}]"
        return DocumentError(self.reason, step + self.place)


def read_document(path: Path) -> Any:
    """Read the JSON of a file, decompressed if its name ends in ``.gz``.

    Raises DocumentError if it is not a regular file, or larger than `LARGEST`.
    """
    try:
        with open_regular(path, follow=True) as file:
            if path.suffix == ".gz":
                with gzip.open(file) as inflated:
                    content = inflated.read(LARGEST + 1)
            else:
                content = file.read(LARGEST + 1)
    except NotRegularError as error:
        raise DocumentError(str(error)) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DocumentError(f"incomplete, or not gzip: {error}") from None
    except (OSError, ValueError) as error:  # the name contains a NUL
        reason = error.strerror if isinstance(error, OSError) else error
        raise DocumentError(f"cannot be read: {reason}") from None
    if len(content) > LARGEST:
        raise DocumentError(f"larger than {LARGEST} bytes")
    try:
        return read_json(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start:#x}") from None


def read_json(text: str) -> Any:
    """Parse JSON; refuse duplicate keys, NaN, and deeper nesting than facts have."""
    # An empty list takes 24 times the memory of its text: 256 MiB of empty lists would take 6 GiB.
    if sum(map(text.count, ",[{")) > _MOST_PARTS:
        raise DocumentError(f"it has more than {_MOST_PARTS:,} parts")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON at line {error.lineno}: {error.msg}") from None
    except ValueError:
        raise DocumentError("not JSON: a number is too long") from None


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentError("an object has the same key twice")
    return found


def _refuse(text: str) -> NoReturn:
    raise DocumentError(f"{text} is not a valid number")


_DECODER = json.JSONDecoder(object_pairs_hook=_require_unique, parse_constant=_refuse)
"""Created only once: a document has 30,000 rows."""


def require_keys(row: Any, known: Collection[str], needed: Collection[str]) -> Mapping[str, Any]:
    """Return the row if it is an object with all needed keys and no unknown key.

    Raises DocumentError.
    """
    if not isinstance(row, dict):
        raise DocumentError(f"{_show(row)} is not an object")
    for key in row:
        if key not in known:
            raise DocumentError(f"unknown field {_show(key)}")
    for key in needed:
        if key not in row:
            raise DocumentError(f"no field {key!r}")
    return row


@cache
def decoder(hint: Any) -> Decode:
    """Return the function that decodes values of a type; it raises DocumentError."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _sequence(arguments)
    if origin is Mapping:
        return _table(arguments[1])
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member_of(hint)
    if is_dataclass(hint):
        return record_decoder(typing.cast(type, hint))
    raise TypeError(f"no fact of the model is a {hint}")


def record_decoder(kind: type) -> Decode:
    """Return the function that decodes a dataclass of the model."""
    return lambda value: kind(**decode_fields(kind, value))


def decode_fields(kind: type, value: Any, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Decode the fields of a dataclass, except the fields in ``left_out``.

    Raises DocumentError with the name of the field.
    """
    decoders, needed = _field_decoders(kind, left_out)
    row = require_keys(value, decoders, needed)
    return {key: decode_at(key, decoders[key], row[key]) for key in row}


@cache
def _field_decoders(
    kind: type, left_out: frozenset[str]
) -> tuple[Mapping[str, Decode], tuple[str, ...]]:
    hints = typing.get_type_hints(kind)
    parts = [part for part in fields(kind) if part.init and part.name not in left_out]
    needed = (p.name for p in parts if p.default is MISSING and p.default_factory is MISSING)
    return {part.name: decoder(hints[part.name]) for part in parts}, tuple(needed)


def decode_at(key: str | int, decode: Decode, value: Any) -> Any:
    """Decode the value under a key or an index. Raises DocumentError with that key or index."""
    try:
        return decode(value)
    except DocumentError as error:
        raise error.within(key) from None


def decode_list(value: Any, decode: Decode) -> tuple[Any, ...]:
    """Decode each item of a list. Raises DocumentError with the index."""
    if not isinstance(value, list) or len(value) > _MOST:
        raise DocumentError(f"{_show(value)} is not a list, or is too long")
    found: list[Any] = []
    try:
        for item in value:
            found.append(decode(item))
    except DocumentError as error:
        raise error.within(len(found)) from None
    return tuple(found)


def _sequence(arguments: tuple[Any, ...]) -> Decode:
    if arguments[-1] is Ellipsis:
        decode_item = decoder(arguments[0])
        return lambda value: decode_list(value, decode_item)
    decoders = tuple(map(decoder, arguments))

    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(decoders):
            raise DocumentError(f"{_show(value)} is not a list of {len(decoders)} parts")
        parts = enumerate(zip(decoders, value, strict=True))
        return tuple(decode_at(index, part, each) for index, (part, each) in parts)

    return decode


def _table(kind: Any) -> Decode:
    decode = decoder(kind)

    def decode_table(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DocumentError(f"{_show(value)} is not an object")
        return {key: decode_at(key, decode, each) for key, each in value.items()}

    return decode_table


def _optional(arguments: tuple[Any, ...]) -> Decode:
    (kind,) = (each for each in arguments if each is not type(None))
    decode = decoder(kind)
    return lambda value: None if value is None else decode(value)


def _member_of(kind: type[Enum]) -> Decode:
    known = {each.value: each for each in kind}

    def decode(value: Any) -> Enum:
        if not isinstance(value, str) or value not in known:
            raise DocumentError(f"{_show(value)} is not one of {', '.join(sorted(known))}")
        return known[value]

    return decode


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DocumentError(f"{_show(value)} is not a string")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DocumentError(f"{_show(value)} is neither true nor false")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_LIMIT < value < _LIMIT:
        raise DocumentError(f"{_show(value)} is not a 64-bit integer")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _LIMIT:
        raise DocumentError(f"{_show(value)} is not a number")
    return float(value)


def _tag(value: Any) -> Tag:
    parts = _text(value).split("-")
    if len(parts) != 3 or not all(parts):
        raise DocumentError(f"{_show(value)} is not a tag")
    return Tag(*parts)


def _format(value: Any) -> Format:
    known = object_kinds()
    if not isinstance(value, str) or value not in known:
        raise DocumentError(f"{_show(value)} is not one of {', '.join(sorted(known))}")
    return known[value].format


_PLAIN: dict[Any, Decode] = {
    str: _text,
    bool: _truth,
    int: _number,
    float: _real,
    Tag: _tag,
    Format: _format,
}


def decode_symbols(value: Any) -> Symbols:
    """Decode a table of symbols; equal names of libraries and versions are shared."""
    return Symbols(map(_share, decoder(tuple[Symbol, ...])(value)))


def _share(symbol: Symbol) -> Symbol:
    for name in ("library", "version"):
        object.__setattr__(symbol, name, intern(getattr(symbol, name)))
    return symbol


def _show(value: Any) -> str:
    shown = (
        json.dumps(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    )
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
