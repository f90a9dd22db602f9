"""Writes what differs between two builds as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from binary_checks.documents.encoding import dump, dump_rows, encode, encode_fields
from binary_checks.documents.json_schema import describe_document
from binary_checks.model.run_results import BuildComparison

DIFF_SCHEMA = "binary-checks/diff/1"
_TABLES = ("lines", "not_compared")


def write_diff(comparison: BuildComparison) -> Iterator[str]:
    """The document in pieces, a row a line."""
    heads = encode_fields(comparison)
    yield f'{{\n"schema": {dump(DIFF_SCHEMA)}'
    for name in sorted(heads.keys() - {*_TABLES}):
        yield f',\n"{name}": {dump(heads[name])}'
    for name in _TABLES:
        yield f',\n"{name}": ['
        yield from dump_rows(map(encode, getattr(comparison, name)))
        yield "]"
    yield "\n}\n"


def describe_diff() -> dict[str, Any]:
    """The JSON Schema of the document, out of the types that it is written from."""
    return describe_document(DIFF_SCHEMA, BuildComparison)
