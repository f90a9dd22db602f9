"""Writes the facts of a package as JSON, without a verdict: streamed, sorted, reproducible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import PurePath
from typing import Any

from binary_checks.model import Linkage, ObjectFile, Package, SymbolTable, Wheel

SCHEMA = "binary-checks/facts/1"
LEFT_OUT = frozenset({"objects", "malformed", "unread", "members", "path", "record"})
"""Fields of a package that have a place of their own in the document, or none."""


def write_facts(
    package: Package, sha256: str, linkage: Linkage | None, *, symbols: bool
) -> Iterator[str]:
    """The document in pieces: one object file at a time, whatever the package's size."""
    yield "{\n"
    yield f'"schema": {json.dumps(SCHEMA)},\n'
    yield f'"package": {_dump(_package(package, sha256))},\n'
    yield '"object_files": ['
    yield from _rows(_object(item, symbols=symbols) for item in package.objects)
    yield '],\n"malformed_objects": ['
    yield from _rows(_fields(item) for item in package.malformed)
    yield '],\n"unread_objects": ['
    yield from _rows(_fields(item) for item in package.unread)
    yield '],\n"linkage": ['
    yield from _rows(_edges(linkage) if linkage else ())
    yield "]\n}\n"


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def _rows(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    separator = "\n"
    for row in rows:
        yield separator + _dump(row)
        separator = ",\n"


def _package(package: Package, sha256: str) -> dict[str, Any]:
    facts = {
        **{name: value for name, value in _fields(package).items() if name not in LEFT_OUT},
        "file_name": package.file_name,
        "kind": type(package).__name__,
        "name": package.name,
        "version": package.version,
        "sha256": sha256,
    }
    if isinstance(package, Wheel):
        facts["tags"] = [str(tag) for tag in package.tags]
        facts["record_sha256"] = record_sha256(package)
    return facts


def record_sha256(wheel: Wheel) -> str:
    """The SHA-256 of the wheel's own RECORD rows, sorted, by which an installed copy is known too.

    A row is ``path,hash,size``; RECORD's own row and what installers add are left out.
    """
    own = f"{wheel.dist_info}/RECORD"
    rows = sorted(
        f"{row.path},{row.hash},{'' if row.size is None else row.size}"
        for row in wheel.record or ()
        if row.path != own
    )
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


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
