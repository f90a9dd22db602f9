"""Verdicts as in-toto statements (https://in-toto.io/Statement/v1): canonical, read back strictly.

A verdict has the predicate test-result/v0.1. What that has no field for stands in the annotations
of one of its resource descriptors, so that every reader of the format reads these, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_fields, read_json
from binary_checks.documents.encoding import dump, encode_fields
from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.verdict import VERDICT_SCHEMA, PackageVerdict
from binary_checks.fleet.records import demand_digest
from binary_checks.model import Outcome

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
LARGEST_STATEMENT = 4 << 20  # bytes
_RESULTS = {"passed": "PASSED", "warned": "WARNED", "known": "WARNED"}


def write_statement(verdict: PackageVerdict) -> bytes:
    """The statement of a verdict: of equal verdicts the same bytes."""
    return seal(verdict.sha256, verdict.file_name, TEST_RESULT, _describe(verdict))


def seal(sha256: str, file_name: str, kind: str, predicate: Mapping[str, Any]) -> bytes:
    """A statement of that kind about one file."""
    subject = {"name": file_name, "digest": {"sha256": sha256}}
    row = {"_type": STATEMENT, "subject": [subject], "predicateType": kind, "predicate": predicate}
    return dump(row).encode("ascii")


def _describe(verdict: PackageVerdict) -> dict[str, Any]:
    known = {"sha256": verdict.known_problems_sha256}
    return {
        "result": _RESULTS.get(verdict.word, "FAILED"),
        "configuration": [
            {"name": "profile", "digest": {"sha256": verdict.profile_sha256}},
            {"name": "known problems", "digest": known},
            {"name": VERDICT_SCHEMA, "annotations": encode_fields(verdict)},
        ],
        "passedTests": [*verdict.passed],
        "warnedTests": [*verdict.warned],
        "failedTests": [*verdict.failed],
    }


def read_statement(content: bytes, named: str) -> PackageVerdict:
    """The verdict that a statement is of, which messages name so.

    Raises RecordError, one line, for one that is cut, of another kind or subject, or that says
    anything in another way than `write_statement` does.
    """
    try:
        predicate = open_statement(content, TEST_RESULT)
        verdict = PackageVerdict(**decode_fields(PackageVerdict, _find_record(predicate)))
        _demand_sound(verdict)
        if write_statement(verdict) != content:
            raise OddityError("its parts contradict each other")
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return verdict


def open_statement(content: bytes, kind: str) -> Mapping[str, Any]:
    """The predicate of a statement of that kind. Raises OddityError for what is none."""
    row = read_object(content)
    if row.get("_type") != STATEMENT:
        raise OddityError("not an in-toto statement")
    if row.get("predicateType") != kind:
        raise OddityError(f"its predicate is {row.get('predicateType')!r:.100}, not {kind}")
    predicate = row.get("predicate")
    if not isinstance(predicate, dict):
        raise OddityError("it has no predicate")
    return predicate


def read_object(content: bytes) -> dict[str, Any]:
    """A JSON object in ASCII. Raises OddityError."""
    if len(content) > LARGEST_STATEMENT:
        raise OddityError(f"larger than {LARGEST_STATEMENT} bytes")
    try:
        row = read_json(content.decode("ascii"))
    except UnicodeDecodeError as error:
        raise OddityError(f"not ASCII at byte {error.start:#x}") from None
    if not isinstance(row, dict):
        raise OddityError("not a JSON object")
    return row


def _find_record(predicate: Mapping[str, Any]) -> Any:
    found = predicate.get("configuration")
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("name") == VERDICT_SCHEMA:
            return each.get("annotations")
    raise OddityError(f"its configuration has no {VERDICT_SCHEMA}")


def _demand_sound(verdict: PackageVerdict) -> None:
    for name in ("sha256", "profile_sha256", "known_problems_sha256"):
        demand_digest(name, getattr(verdict, name))
    read_time(verdict.ended)
    lacking = verdict.outcome is Outcome.FAILED and verdict.faults  # too few object files
    if (verdict.outcome is Outcome.FAILED) != bool(verdict.failed or lacking):
        raise OddityError(f"outcome: {verdict.outcome.value}, which its checks contradict")


def read_time(text: str) -> datetime:
    """A time in UTC as documents have it. Raises OddityError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.utcoffset() != timedelta(0) or len(text) > 40:
        raise OddityError(f"{text!r:.40} is not a time in UTC, as 2026-11-20T04:00:00+00:00 is")
    return found
