"""Writes the facts of a package as JSON, without a verdict: streamed, sorted, reproducible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import PurePath
from typing import Any

from binary_checks.documents.facts_reader import LEFT_OUT, SCHEMA, WRITER
from binary_checks.model import (
    Distribution,
    Linkage,
    ObjectFile,
    Package,
    SymbolTable,
    hash_record,
)

_COMMANDS = re.compile(
    "[:#](?=[:#])|(?:(?<=section_start)|(?<=section_end)|(?<=travis_fold)|(?<=travis_time)):",
    re.IGNORECASE,
)
"""The letters without which a command of `binary_checks.lines` is none."""


def write_facts(
    package: Package, sha256: str, linkage: Linkage | None, *, symbols: bool
) -> Iterator[str]:
    """The document in pieces: one object file at a time, whatever the package's size.

    Every row is a line, by which the restoration reads them, one at a time too.
    """
    yield "{\n"
    yield f'"schema": {_dump(SCHEMA)},\n'
    yield f'"written_by": {_dump(WRITER)},\n'
    yield f'"symbols": {_dump(symbols)},\n'
    yield f'"package": {_dump(_package(package, sha256))},\n'
    rows = (_object(item, symbols=symbols) for item in package.objects)
    yield from _table("object_files", rows)
    yield from _table("malformed_objects", map(_fields, package.malformed))
    yield from _table("unread_objects", map(_fields, package.unread))
    yield from _table("members", map(_fields, package.members))
    record = package.record if isinstance(package, Distribution) else None
    yield from _table("record", map(_fields, record)) if record is not None else ()
    yield from _table("linkage", _edges(linkage) if linkage else (), end="")
    yield "}\n"


def _table(name: str, rows: Iterable[dict[str, Any]], end: str = ",") -> Iterator[str]:
    yield f"{_dump(name)}: ["
    yield from _rows(rows)
    yield f"]{end}\n"


def _dump(value: object) -> str:
    """JSON in ASCII, in which nothing commands a build service whose log it ends in.

    Outside of texts JSON has none of these, and inside of them an escape says the same.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _rows(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    separator = ""
    for row in rows:
        yield f"{separator}\n{_dump(row)}"
        separator = ","
    yield "\n"


def _package(package: Package, sha256: str) -> dict[str, Any]:
    facts = {
        **{name: value for name, value in _fields(package).items() if name not in LEFT_OUT},
        "file_name": package.file_name,
        "kind": type(package).__name__,
        "name": package.name,
        "version": package.version,
        "sha256": sha256,
    }
    if isinstance(package, Distribution):
        facts["tags"] = [str(tag) for tag in package.tags]
        facts["record_sha256"] = record_sha256(package)
    return facts


def record_sha256(package: Distribution) -> str:
    """The hash of what RECORD says, by which an installed copy is known too."""
    return hash_record(package.dist_info, package.record or ())


def _object(item: ObjectFile, *, symbols: bool) -> dict[str, Any]:
    facts = {"path": item.path, "format": item.format.value, **_fields(item)}
    for name in ("imports", "exports"):
        table: SymbolTable = getattr(item, name)
        facts.pop(name, None)
        if symbols and len(table):
            facts[name] = sorted((_fields(symbol) for symbol in table), key=_dump)
    return facts


def _edges(linkage: Linkage) -> Iterator[dict[str, Any]]:
    for edge in sorted(linkage.edges, key=lambda e: (e.path, e.architecture, e.needed)):
        yield {
            "path": edge.path,
            "architecture": edge.architecture,
            "needed": edge.needed,
            "resolved": edge.resolved,
            "rule": edge.rule.value,
        }


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a fact that are not at their default."""
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields(value)
        if not _at_default(value, field)
    }


def _at_default(value: Any, field: Any) -> bool:
    return field.default is not MISSING and getattr(value, field.name) == field.default


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return value.name
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return _fields(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
