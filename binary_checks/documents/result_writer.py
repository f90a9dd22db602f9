"""Writes what a run found as JSON: streamed, and the same from run to run but for the seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from binary_checks.documents.encoding import dump, dump_rows, encode, encode_fields
from binary_checks.documents.json_schema import describe_document
from binary_checks.model import PackageResult, RunResult

RESULT_SCHEMA = "binary-checks/result/1"
NOT_WRITTEN = frozenset({"facts"})
"""The field of a run that its document does not have: they are documents of their own."""

_TABLES = ("checks", "packages")


def encode_run(run: RunResult) -> dict[str, Any]:
    """Return the document as one JSON value, for another document that holds it."""
    return {"schema": RESULT_SCHEMA, **encode_fields(run, NOT_WRITTEN)}


def write_results(run: RunResult) -> Iterator[str]:
    """The document in pieces: an entry at a time, a row a line."""
    heads = encode_fields(run, {*_TABLES, *NOT_WRITTEN})
    yield f'{{\n"schema": {dump(RESULT_SCHEMA)},\n'
    for name in sorted(heads):
        yield f'"{name}": {dump(heads[name])},\n'
    yield '"checks": ['
    yield from dump_rows(map(encode, run.checks))
    yield '],\n"packages": ['
    separator = ""
    for package in run.packages:
        yield f"{separator}\n"
        yield from _package(package)
        separator = ","
    yield "\n]\n}\n"


def _package(package: PackageResult) -> Iterator[str]:
    row = encode_fields(package, {"entries"})
    yield f'{dump(row).removesuffix("}")}, "entries": ['
    yield from dump_rows(map(encode, package.entries))
    yield "]}"


def describe_results() -> dict[str, Any]:
    """The JSON Schema of the document, out of the types that it is written from."""
    return describe_document(RESULT_SCHEMA, RunResult, NOT_WRITTEN)
