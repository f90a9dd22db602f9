"""The document with the facts of a package: written by ``inspect``, and read back strictly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, TypeVar

from binary_checks import __version__
from binary_checks.documents.json_schema import DIALECT, describe_fields
from binary_checks.documents.json_values import (
    Decode,
    DocumentError,
    decode_at,
    decode_fields,
    decode_list,
    decode_symbols,
    decoder,
    dump,
    dump_rows,
    encode_fields,
    read_document,
    record_decoder,
    require_keys,
)
from binary_checks.errors import ProfileError
from binary_checks.model import (
    BinaryConfiguration,
    DeviceDetails,
    DeviceFile,
    Distribution,
    Edge,
    Linkage,
    LinkedLibraries,
    MalformedObject,
    Member,
    ObjectDetails,
    ObjectFile,
    Package,
    RecordRow,
    Rule,
    StaticArchive,
    Symbol,
    SymbolTable,
    UnknownSymbols,
    UnreadObject,
    hash_record,
    object_kinds,
    package_kinds,
)

# Writing the facts of a package as JSON, without verdicts: in pieces, sorted, reproducible.


def write_facts(  # noqa: PLR0913
    package: Package,
    sha256: str,
    linkage: Linkage | None,
    derived: Mapping[str, object] = MappingProxyType({}),
    *,
    details: DeviceDetails | None = None,
    symbols: bool,
) -> Iterator[str]:
    """Yield the document in pieces: one object file at a time, whatever the package's size.

    ``derived`` maps names in the document to facts; ``details`` are facts of device code, if
    requested. Every row is on a line of its own, for people and for diffs.
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
    """Return the hash of RECORD's contents, which also identifies an installed copy."""
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


# Reading the facts of a package back from the JSON that ``inspect`` wrote.

SCHEMA = "binary-checks/facts/3"
WRITER = f"binary-checks {__version__}"
LEFT_OUT = frozenset({"objects", "malformed", "unread", "members", "path", "record"})
"""Fields of a package that are stored elsewhere in the document, or not at all."""
SYMBOLS = ("imports", "exports")
APART = frozenset({*SYMBOLS, "device_sample"})
"""Fields of an object file that are stored elsewhere in its row, or not at all."""

DERIVED: Mapping[str, type] = {
    "configuration": BinaryConfiguration,
    "linked_libraries": LinkedLibraries,
}
"""Facts that a run derives again from other facts."""
OPTIONAL = frozenset({"record", "device_details"})
_TABLES = (
    "object_files",
    "malformed_objects",
    "unread_objects",
    "members",
    "record",
    "device_details",
    "linkage",
)
_PARTS = ("schema", "written_by", "symbols", "package", *DERIVED, *_TABLES)
_WITHOUT_SYMBOLS = (StaticArchive, DeviceFile)
_DIGEST = re.compile("[0-9a-f]{64}")
_EDGE = ("path", "architecture", "needed", "resolved", "rule")
DOUBTS = ("weak", "delayed", "unknown", "partly", "may_come_with")
"""Fields that a row of the linkage contains only if they differ from their defaults."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """The contents of a facts document."""

    sha256: str  # of the package file
    record_sha256: str  # of a package with a RECORD, else ""
    package: Package  # its path is only the file name
    edges: tuple[Edge, ...] | None = None  # edges of the linkage, if known and requested
    configuration: BinaryConfiguration | None = None  # as written; a run derives it again
    linked_libraries: LinkedLibraries | None = None  # as written; a run derives them again
    symbols: bool = True  # whether the document has the symbols of the objects
    written_by: str = WRITER


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedFacts:
    """The parts of a document to read, and how to store them."""

    # the edges of the linkage; a run needs none, because it simulates the loader again
    edges: bool = False
    record: bool = True  # the package's RECORD, whose hash must match
    # whether to accept facts written by an earlier version, which may lack some
    any_writer: bool = False
    keep_symbols: Callable[[Any], SymbolTable] = decode_symbols


_FOR_A_RUN = WantedFacts()


def restore(
    path: Path, *, edges: bool = False, named: str = "", reading: WantedFacts = _FOR_A_RUN
) -> Statement:
    """Read a document written by ``inspect``, with or without the edges of the linkage.

    Raises ProfileError, one line with the file's name or ``named``, for any deviation from the
    format.
    """
    reading = replace(reading, edges=edges or reading.edges)
    try:
        return _restore(read_document(path), reading)
    except DocumentError as error:
        raise ProfileError(f"{named or path.name or path}: {error}") from None


def _restore(document: Any, reading: WantedFacts) -> Statement:
    found = _require_facts(document, any_writer=reading.any_writer)
    symbols = found["symbols"]
    decoders = _make_decoders(reading, symbols=symbols)
    if found["linkage"] is None:
        decoders.pop("linkage", None)
    tables: dict[str, Any] = {
        name: decode_at(name, partial(decode_list, decode=decode), found[name])
        for name, decode in decoders.items()
        if name in found
    }
    package: Package = decode_at(
        "package", partial(_decode_package, tables=tables), found["package"]
    )
    stated = found["package"].get("record_sha256", "")
    if reading.record and isinstance(package, Distribution) and record_sha256(package) != stated:
        raise DocumentError("record_sha256 does not match its record").within("package")
    return Statement(
        sha256=found["package"]["sha256"],
        record_sha256=stated,
        package=package,
        edges=tables.get("linkage"),
        symbols=symbols,
        written_by=found["written_by"],
        **{
            name: decode_at(name, decoder(kind | None), found[name])
            for name, kind in DERIVED.items()
        },
    )


def _require_facts(document: Any, *, any_writer: bool) -> Mapping[str, Any]:
    """Return the document if it has the right schema and writer and all required parts."""
    if not isinstance(document, dict) or "schema" not in document:
        raise DocumentError("not a facts document written by `binary-checks inspect`")
    if document["schema"] != SCHEMA:
        raise DocumentError(f"its schema is {document['schema']!r:.80}, not {SCHEMA!r}")
    require_keys(document, _PARTS, set(_PARTS) - OPTIONAL)
    written_by = decode_at("written_by", decoder(str), document["written_by"])
    if written_by != WRITER and not any_writer:
        raise DocumentError(f"written by {written_by!r:.80}, this is {WRITER!r}: inspect again")
    decode_at("symbols", decoder(bool), document["symbols"])
    return document


def _make_decoders(reading: WantedFacts, *, symbols: bool) -> dict[str, Decode]:
    """Return the decoders for rows of the requested tables."""
    decoders: dict[str, Decode] = {
        "object_files": lambda row: _restore_object(row, reading, symbols=symbols),
        "malformed_objects": record_decoder(MalformedObject),
        "unread_objects": record_decoder(UnreadObject),
        "members": _restore_member,
    }
    if reading.record:
        decoders["record"] = record_decoder(RecordRow)
    if reading.edges:
        decoders["linkage"] = _restore_edge
    return decoders


def _restore_edge(row: Any) -> Edge:
    require_keys(row, (*_EDGE, *DOUBTS), _EDGE)
    # A package of 800 libraries that all need each other has 640,000 rows with 800 names.
    shared = {key: intern(value) if isinstance(value, str) else value for key, value in row.items()}
    edge: Edge = record_decoder(Edge)(shared)
    return edge


def _restore_member(row: Any) -> Member:
    member: Member = record_decoder(Member)(row)
    if member.sha256 and not _DIGEST.fullmatch(member.sha256):
        raise DocumentError("not the 64 hexadecimal digits of a digest").within("sha256")
    return member


def _restore_object(row: Any, reading: WantedFacts, *, symbols: bool) -> ObjectFile:
    if not isinstance(row, dict) or not isinstance(row.get("format"), str):
        raise DocumentError("an object file without a format")
    kind = object_kinds().get(row["format"])
    if kind is None:
        raise DocumentError(f"unknown format {row['format']!r:.40}")
    tables: dict[str, Any] = _restore_symbols(row, kind, reading, symbols=symbols)
    others = {key: value for key, value in row.items() if key not in {"format", *tables}}
    return kind(**decode_fields(kind, others, APART), **tables)


def _restore_symbols(
    row: dict[str, Any], kind: type[ObjectFile], reading: WantedFacts, *, symbols: bool
) -> dict[str, SymbolTable]:
    named = [name for name in SYMBOLS if name in row]
    if symbols:
        return {name: decode_at(name, reading.keep_symbols, row[name]) for name in named}
    if named:
        raise DocumentError("it has symbols, although the document states that it has none")
    unknown = UnknownSymbols("the facts were written without symbols (--no-symbols)")
    return {} if issubclass(kind, _WITHOUT_SYMBOLS) else {"imports": unknown, "exports": unknown}


def _decode_package(about: Any, tables: Mapping[str, Any]) -> Package:
    if not isinstance(about, dict):
        raise DocumentError("not an object")
    about = dict(about)
    name, _, stated = (_take(about, key) for key in ("file_name", "sha256", "kind"))
    kind = package_kinds().get(stated)
    if kind is None:
        known = ", ".join(sorted(package_kinds()))
        raise DocumentError(f"its kind {stated!r:.40} is not one of {known}")
    if issubclass(kind, Distribution):
        _take(about, "record_sha256")
    if lacking := {"name", "version", "layout", "claims"} - set(about):
        raise DocumentError(f"no field {min(lacking)!r}")
    fields = decode_fields(kind, about, LEFT_OUT)
    if issubclass(kind, Distribution):
        fields["record"] = tables.get("record")
    elif "record" in tables:
        raise DocumentError(f"the document has a table 'record', which no {stated} has")
    return kind(
        **fields,
        path=Path(name),
        objects=tables["object_files"],
        malformed=tables["malformed_objects"],
        unread=tables["unread_objects"],
        members=tables["members"],
    )


def _take(about: dict[str, Any], key: str) -> str:
    value = about.pop(key, None)
    if not isinstance(value, str):
        raise DocumentError(f"{key} is missing, or not a string")
    return value


# The JSON Schema of facts documents, from the model's types.

_Kind = TypeVar("_Kind", Package, ObjectFile)
_TEXT = {"type": "string"}
_ROWS = {
    "malformed_objects": MalformedObject,
    "unread_objects": UnreadObject,
    "members": Member,
    "record": RecordRow,
}


def describe_facts() -> dict[str, Any]:
    """Return the JSON Schema of the document, from the types that it is written from.

    The schema covers our own classes that are loaded; a project must describe its own classes.
    """
    found: dict[str, Any] = {}
    packages = [_describe_package(kind, found) for kind in _sort_own(package_kinds())]
    objects = [_describe_object(kind, found) for kind in _sort_own(object_kinds())]
    tables = {name: _list(describe_fields(kind, found)) for name, kind in _ROWS.items()}
    properties = {
        "schema": {"const": SCHEMA},
        "written_by": _TEXT,
        "symbols": {"type": "boolean"},
        **{
            name: {"anyOf": [describe_fields(kind, found), {"type": "null"}]}
            for name, kind in DERIVED.items()
        },
        "package": {"oneOf": packages},
        "object_files": _list({"oneOf": objects}),
        **tables,
        "device_details": _list(describe_fields(ObjectDetails, found)),
        "linkage": {"anyOf": [_list(_describe_edge(found)), {"type": "null"}]},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        "title": SCHEMA,
        "type": "object",
        "required": sorted(properties.keys() - OPTIONAL),
        "additionalProperties": False,
        "properties": properties,
        "$defs": dict(sorted(found.items())),
    }


def _sort_own(kinds: Mapping[str, type[_Kind]]) -> Iterator[type[_Kind]]:
    ours = __name__.partition(".")[0]
    return (kind for _, kind in sorted(kinds.items()) if kind.__module__.startswith(f"{ours}."))


def _describe_package(kind: type[Package], found: dict[str, Any]) -> dict[str, Any]:
    values = {"file_name": _TEXT, "kind": {"const": kind.__name__}, "sha256": _TEXT}
    if issubclass(kind, Distribution):
        values["record_sha256"] = _TEXT
    described = describe_fields(kind, found, LEFT_OUT)
    needed = {*values, "name", "version", "layout", "claims"}
    return {
        **described,
        "required": sorted(needed.union(described["required"])),
        "properties": {**described["properties"], **values},
    }


def _describe_object(kind: type[ObjectFile], found: dict[str, Any]) -> dict[str, Any]:
    described = describe_fields(kind, found, APART)
    table = _list(describe_fields(Symbol, found))
    return {
        **described,
        "required": sorted({*described["required"], "format"}),
        "properties": {
            **described["properties"],
            "format": {"const": str(kind.format)},
            **dict.fromkeys(sorted(SYMBOLS), table),
        },
    }


def _describe_edge(found: dict[str, Any]) -> dict[str, Any]:
    properties = {
        **dict.fromkeys(("path", "architecture", "needed"), _TEXT),
        "resolved": {"type": ["string", "null"]},
        "rule": {"enum": [rule.value for rule in Rule]},
    }
    doubts = describe_fields(Edge, found)["properties"]
    return {
        "type": "object",
        "required": sorted(properties),
        "additionalProperties": False,
        "properties": {**properties, **{name: doubts[name] for name in DOUBTS}},
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}
