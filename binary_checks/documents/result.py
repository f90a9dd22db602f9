"""The document with the results of a run: written as JSON, and read back strictly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import (
    DocumentError,
    decode_fields,
    dump,
    dump_rows,
    encode,
    encode_fields,
    read_document,
)
from binary_checks.errors import EXIT_CODES, ProfileError
from binary_checks.model import Outcome, PackageResult, RunResult, conclude

# Writing the results of a run: in pieces, and equal between runs except for durations.

RESULT_SCHEMA = "binary-checks/result/1"
NOT_WRITTEN = frozenset({"facts", "program"})
"""Fields of a run that are not written: facts are separate documents."""

_TABLES = ("checks", "packages")


def encode_run(run: RunResult) -> dict[str, Any]:
    """Return the document as one JSON value, to be embedded in another document."""
    return {"schema": RESULT_SCHEMA, **encode_fields(run, NOT_WRITTEN)}


def write_results(run: RunResult) -> Iterator[str]:
    """Yield the document in pieces: one entry at a time, one row on each line."""
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
    """Return the JSON Schema of the document, from the types that it is written from."""
    return describe_document(RESULT_SCHEMA, RunResult, NOT_WRITTEN)


# Reading a result document back.


def read_results(path: Path, named: str = "") -> RunResult:
    """Read a document written by ``--binary-report json:FILE``.

    Raises ProfileError, one line with the file's name or ``named``, for any deviation from the
    format.
    """
    try:
        return decode_run(read_document(path))
    except DocumentError as error:
        raise ProfileError(f"{named or path.name or path}: {error}") from None


def decode_run(document: Any) -> RunResult:
    """Decode a document; its verdicts must follow from its entries. Raises DocumentError."""
    if not isinstance(document, dict) or "schema" not in document:
        raise DocumentError("not a result document written by --binary-report json:FILE")
    fields = {name: value for name, value in document.items() if name != "schema"}
    schema = document["schema"]
    if schema != RESULT_SCHEMA:
        raise DocumentError(f"its schema is {schema!r:.80}, not {RESULT_SCHEMA!r}")
    run = RunResult(**decode_fields(RunResult, fields, NOT_WRITTEN))
    if run.exit_code not in EXIT_CODES:
        raise DocumentError(f"{run.exit_code} is not a number from 0 to {EXIT_CODES[-1]}").within(
            "exit_code"
        )
    for index, package in enumerate(run.packages):
        try:
            _require_sound(package)
        except DocumentError as error:
            raise error.within(index).within("packages") from None
    return run


def _require_sound(package: PackageResult) -> None:
    """Raise DocumentError if the package's verdict does not follow from its other fields."""
    outcomes = [entry.outcome for entry in package.entries]
    if Outcome.NOT_JUDGED in outcomes:
        reason = f"{Outcome.NOT_JUDGED.value!r} is not an outcome of a check"
        at = outcomes.index(Outcome.NOT_JUDGED)
        raise DocumentError(reason).within("outcome").within(at).within("entries")
    verdict = conclude(package, outcomes, package.stopped)
    if package.verdict is not verdict:
        found = f"{package.verdict.value!r}, but its entries add up to {verdict.value!r}"
        raise DocumentError(found).within("verdict")
