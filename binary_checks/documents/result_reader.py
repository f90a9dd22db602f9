"""Reads a result document back, strictly: a run as it was when it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_fields, read_document
from binary_checks.documents.result_writer import NOT_WRITTEN, RESULT_SCHEMA
from binary_checks.errors import ProfileError
from binary_checks.exit_codes import EXIT_CODES
from binary_checks.model import Outcome, PackageResult, Run, conclude


def read_results(path: Path, named: str = "") -> Run:
    """Read a document that ``--binary-report json:FILE`` wrote.

    Raises ProfileError, one line with the file's name or as it was ``named``, for whatever is not
    as it is written.
    """
    named = named or path.name
    return decode_results(read_result_document(path, named), named)


def read_result_document(path: Path, named: str) -> Any:
    """The JSON of a document, of which nothing is known yet. Raises ProfileError."""
    try:
        return read_document(path)
    except OddityError as error:
        raise ProfileError(f"{named}: {error}") from None


def decode_results(document: Any, named: str) -> Run:
    """The run that a document states, which another document may hold. Raises ProfileError."""
    try:
        return _decode(document)
    except OddityError as error:
        raise ProfileError(f"{named}: {error}") from None


def _decode(document: Any) -> Run:
    if not isinstance(document, dict) or "schema" not in document:
        raise OddityError("not the results of a run, as --binary-report json:FILE writes them")
    fields = {name: value for name, value in document.items() if name != "schema"}
    schema = document["schema"]
    if schema != RESULT_SCHEMA:
        raise OddityError(f"its schema is {schema!r:.80}, not {RESULT_SCHEMA!r}")
    run = Run(**decode_fields(Run, fields, NOT_WRITTEN))
    if run.exit_code not in EXIT_CODES:
        raise OddityError(f"exit_code: {run.exit_code} is not one of 0 to {EXIT_CODES[-1]}")
    for package in run.packages:
        _demand_sound(package)
    return run


def _demand_sound(package: PackageResult) -> None:
    """Raise OddityError where the package's verdict is not what all else says of it."""
    where, outcomes = f"packages: {package.file_name!r:.80}", [e.outcome for e in package.entries]
    if Outcome.NOT_JUDGED in outcomes:
        raise OddityError(f"{where}: outcome: {Outcome.NOT_JUDGED.value!r} is none of a check")
    verdict = conclude(package, outcomes, package.stopped)
    if package.verdict is not verdict:
        found = f"{package.verdict.value!r}, but its entries add up to {verdict.value!r}"
        raise OddityError(f"{where}: verdict: {found}")
