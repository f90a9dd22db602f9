"""Describes the document of facts as a JSON Schema, out of the model's types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from binary_checks.documents.facts_reader import (
    APART,
    DERIVED,
    DOUBTS,
    LEFT_OUT,
    OPTIONAL,
    SCHEMA,
    SYMBOLS,
)
from binary_checks.documents.json_schema import DIALECT, describe_fields
from binary_checks.model import (
    Distribution,
    Edge,
    MalformedObject,
    Member,
    ObjectFile,
    Package,
    RecordRow,
    Symbol,
    UnreadObject,
)
from binary_checks.model.device import ObjectDetails
from binary_checks.model.linkage import Rule
from binary_checks.model.objects import object_kinds
from binary_checks.model.packages import package_kinds

_Kind = TypeVar("_Kind", Package, ObjectFile)
_TEXT = {"type": "string"}
_ROWS = {
    "malformed_objects": MalformedObject,
    "unread_objects": UnreadObject,
    "members": Member,
    "record": RecordRow,
}


def describe_facts() -> dict[str, Any]:
    """The JSON Schema of the document, out of the types that it is written from.

    Those of our own that are loaded: what a project adds, it describes itself.
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
    told = {"file_name": _TEXT, "kind": {"const": kind.__name__}, "sha256": _TEXT}
    if issubclass(kind, Distribution):
        told["record_sha256"] = _TEXT
    described = describe_fields(kind, found, LEFT_OUT)
    needed = {*told, "name", "version", "layout", "claims"}
    return {
        **described,
        "required": sorted(needed.union(described["required"])),
        "properties": {**described["properties"], **told},
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
