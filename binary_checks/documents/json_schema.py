"""JSON Schemas of documents, generated from the types that they are written from."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, cast

from packaging.tags import Tag

from binary_checks.model import Format

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Tag: {"type": "string"},
    Format: {"type": "string"},
}


def describe_document(
    name: str, kind: type, left_out: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the schema of a document with the fields of the dataclass and ``schema``."""
    definitions: dict[str, Any] = {}
    described = describe_fields(kind, definitions, left_out)
    return {
        "$schema": DIALECT,
        "$id": f"urn:{name.replace('/', ':')}",
        "title": name,
        **described,
        "required": ["schema", *described["required"]],
        "properties": {"schema": {"const": name}, **described["properties"]},
        "$defs": dict(sorted(definitions.items())),
    }


def describe_fields(
    kind: type, definitions: dict[str, Any], left_out: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the schema of a dataclass; ``definitions`` receives the schemas that it refers to."""
    hints = typing.get_type_hints(kind)
    parts = [part for part in fields(kind) if part.init and part.name not in left_out]
    needed = (p.name for p in parts if p.default is MISSING and p.default_factory is MISSING)
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " "),
        "required": sorted(needed),
        "additionalProperties": False,
        "properties": {
            part.name: _with_default(_describe(hints[part.name], definitions), part.default)
            for part in sorted(parts, key=lambda part: part.name)
        },
    }


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    """Return the schema with the default of an omitted field, if JSON can represent the default."""
    if isinstance(default, Enum):
        return {**schema, "default": default.value}
    if default == ():
        return {**schema, "default": []}
    plain = default is None or isinstance(default, (str, bool, int, float))
    return {**schema, "default": default} if plain else schema


def _describe(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _describe_sequence(arguments, definitions)
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _describe(arguments[1], definitions)}
    if origin in (typing.Union, types.UnionType):
        (kind,) = (each for each in arguments if each is not type(None))
        return {"anyOf": [_describe(kind, definitions), {"type": "null"}]}
    return _refer(hint, definitions)


def _describe_sequence(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if arguments[-1] is Ellipsis:
        return {"type": "array", "items": _describe(arguments[0], definitions)}
    parts = [_describe(each, definitions) for each in arguments]
    count = len(parts)
    return {"type": "array", "prefixItems": parts, "minItems": count, "maxItems": count}


def _refer(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to an enumeration or dataclass, which is described only once."""
    name: str = kind.__name__
    if name not in definitions:
        if isinstance(kind, type) and issubclass(kind, Enum):
            definitions[name] = {"enum": [each.value for each in kind]}
        elif is_dataclass(kind):
            definitions[name] = {}  # the schema may refer to itself
            definitions[name] = describe_fields(cast("type", kind), definitions)
        else:
            raise TypeError(f"no document has a {kind}")
    return {"$ref": f"#/$defs/{name}"}
