"""Reads a result document back, strictly: a run as it was when it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_fields, read_document
from binary_checks.documents.result_writer import NOT_WRITTEN, RESULT_SCHEMA
from binary_checks.errors import ProfileError
from binary_checks.exit_codes import EXIT_CODES
from binary_checks.model import Outcome, PackageResult, RunResult, conclude


def read_results(path: Path, named: str = "") -> RunResult:
    """Read a document that ``--binary-report json:FILE`` wrote.

    Raises ProfileError, one line with the file's name or as it was ``named``, for whatever is not
    as it is written.
    """
    try:
        return decode_run(read_document(path))
    except OddityError as error:
        raise ProfileError(f"{named or path.name or path}: {error}") from None


def decode_run(document: Any) -> RunResult:
    """Decode a document, whose verdicts must follow from its entries. Raises OddityError."""
    if not isinstance(document, dict) or "schema" not in document:
        raise OddityError("not the results of a run, as --binary-report json:FILE writes them")
    fields = {name: value for name, value in document.items() if name != "schema"}
    schema = document["schema"]
    if schema != RESULT_SCHEMA:
        raise OddityError(f"its schema is {schema!r:.80}, not {RESULT_SCHEMA!r}")
    run = RunResult(**decode_fields(RunResult, fields, NOT_WRITTEN))
    if run.exit_code not in EXIT_CODES:
        raise OddityError(f"{run.exit_code} is not one of 0 to {EXIT_CODES[-1]}").within(
            "exit_code"
        )
    for index, package in enumerate(run.packages):
        try:
            _demand_sound(package)
        except OddityError as error:
            raise error.within(index).within("packages") from None
    return run


def _demand_sound(package: PackageResult) -> None:
    """Raise OddityError where the package's verdict is not what all else says of it."""
    outcomes = [entry.outcome for entry in package.entries]
    if Outcome.NOT_JUDGED in outcomes:
        reason = f"{Outcome.NOT_JUDGED.value!r} is the outcome of no check"
        at = outcomes.index(Outcome.NOT_JUDGED)
        raise OddityError(reason).within("outcome").within(at).within("entries")
    verdict = conclude(package, outcomes, package.stopped)
    if package.verdict is not verdict:
        found = f"{package.verdict.value!r}, but its entries add up to {verdict.value!r}"
        raise OddityError(found).within("verdict")
