"""Writes the facts of a package as JSON, without a verdict: streamed, sorted, reproducible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from binary_checks.documents.encoding import dump, dump_rows, encode_fields
from binary_checks.documents.facts_reader import (
    APART,
    DERIVED,
    DOUBTS,
    LEFT_OUT,
    SCHEMA,
    SYMBOLS,
    WRITER,
)
from binary_checks.model import (
    Distribution,
    Linkage,
    ObjectFile,
    Package,
    SymbolTable,
    hash_record,
)
from binary_checks.model.device import DeviceDetails


def write_facts(  # noqa: PLR0913
    package: Package,
    sha256: str,
    linkage: Linkage | None,
    derived: Mapping[str, object] = MappingProxyType({}),
    *,
    details: DeviceDetails | None = None,
    symbols: bool,
) -> Iterator[str]:
    """The document in pieces: one object file at a time, whatever the package's size.

    ``derived`` are facts by their names in the document, ``details`` those of device code where
    they were asked for. Every row is a line, for people and for diffs.
    """
    yield "{\n"
    yield f'"schema": {dump(SCHEMA)},\n'
    yield f'"written_by": {dump(WRITER)},\n'
    yield f'"symbols": {dump(symbols)},\n'
    for name in DERIVED:
        fact = encode_fields(derived[name]) if name in derived else None
        yield f"{dump(name)}: {dump(fact)},\n"
    yield f'"package": {dump(_package(package, sha256))},\n'
    rows = (_object(item, symbols=symbols) for item in package.objects)
    yield from _table("object_files", rows)
    yield from _table("malformed_objects", map(encode_fields, package.malformed))
    yield from _table("unread_objects", map(encode_fields, package.unread))
    yield from _table("members", map(encode_fields, package.members))
    record = package.record if isinstance(package, Distribution) else None
    yield from _table("record", map(encode_fields, record)) if record is not None else ()
    if details is not None:
        yield from _table("device_details", map(encode_fields, details.objects))
    if linkage is None:
        yield '"linkage": null\n'
    else:
        yield from _table("linkage", _edges(linkage), end="")
    yield "}\n"


def _table(name: str, rows: Iterable[dict[str, Any]], end: str = ",") -> Iterator[str]:
    yield f"{dump(name)}: ["
    yield from dump_rows(rows)
    yield f"]{end}\n"


def _package(package: Package, sha256: str) -> dict[str, Any]:
    facts = {
        **encode_fields(package, LEFT_OUT),
        "file_name": package.file_name,
        "kind": type(package).__name__,
        "name": package.name,
        "version": package.version,
        "sha256": sha256,
        "layout": asdict(package.layout),
        "claims": asdict(package.claims),
    }
    if isinstance(package, Distribution):
        facts["tags"] = [str(tag) for tag in package.tags]
        facts["record_sha256"] = record_sha256(package)
    return facts


def record_sha256(package: Distribution) -> str:
    """The hash of what RECORD says, by which an installed copy is known too."""
    return hash_record(package.dist_info, package.record or ())


def _object(item: ObjectFile, *, symbols: bool) -> dict[str, Any]:
    facts = {"path": item.path, "format": item.format, **encode_fields(item, APART)}
    for name in SYMBOLS:
        table: SymbolTable = getattr(item, name)
        if symbols and len(table):
            facts[name] = sorted((encode_fields(symbol) for symbol in table), key=dump)
    return facts


def _edges(linkage: Linkage) -> Iterator[dict[str, Any]]:
    for edge in sorted(linkage.edges, key=lambda e: (e.path, e.architecture, e.needed)):
        yield {
            "path": edge.path,
            "architecture": edge.architecture,
            "needed": edge.needed,
            "resolved": edge.resolved,
            "rule": edge.rule.value,
            **{name: value for name in DOUBTS if (value := getattr(edge, name))},
        }
