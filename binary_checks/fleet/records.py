"""Plans and attempts as documents: canonical bytes, read back strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_at, decode_fields, read_json
from binary_checks.documents.encoding import dump, encode_fields
from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.result_reader import decode_run
from binary_checks.documents.result_writer import encode_run
from binary_checks.errors import RecordError
from binary_checks.fleet.attempts import ATTEMPT_SCHEMA, CPU, GPU, Attempt
from binary_checks.fleet.plan import PLAN_SCHEMA, NightPlan
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store.store_names import is_night, result_name, split_attempt
from binary_checks.lines import cut, one_line

_NOBODY_KNOWS = "1970-01-01T00:00:00Z"  # when an attempt began whose document does not say
_RESULT = frozenset({"result"})
_LARGEST = 64 << 20  # bytes of a document, which takes twenty times that when it is read
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")  # it names files
_DIGEST = re.compile("[0-9a-f]{64}")
_OF_CELLS_ALONE = frozenset({CellState.FLAKY, CellState.STALE, CellState.MISSING})


def write_plan(plan: NightPlan) -> bytes:
    """The document of a plan: of equal plans the same bytes."""
    return write_document({"schema": PLAN_SCHEMA, **encode_fields(plan)})


def read_plan(content: bytes, named: str) -> NightPlan:
    """Read the document of a plan, which messages name so.

    Raises RecordError, one line, for one that is cut, corrupt, or of another schema.
    """
    try:
        plan = NightPlan(**decode_fields(NightPlan, open_document(content, PLAN_SCHEMA)))
        _demand_night(plan.night)
        _demand_unique(each.cell.id for each in plan.cells)
        for path in plan.profiles:  # files of these names are written where a cell runs
            demand_relative("profiles", path)
        for each in plan.cells:
            _demand_id(each.cell.id)
            if each.sha256:  # of what is not published there is none
                demand_digest("sha256", each.sha256)
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return plan


def write_attempt(attempt: Attempt) -> bytes:
    """The document of an attempt, which holds that of its run's result."""
    row = encode_fields(attempt, _RESULT)
    result = {} if attempt.result is None else {"result": encode_run(attempt.result)}
    return write_document({"schema": ATTEMPT_SCHEMA, **row, **result})


def read_attempt(content: bytes, named: str) -> Attempt:
    """Read the document of an attempt, which messages name so.

    Raises RecordError, one line, for one that is cut, corrupt, or of another schema, or whose
    result is: whoever counts takes it for lost.
    """
    try:
        row = open_document(content, ATTEMPT_SCHEMA)
        stated = row.pop("result", None)
        result = None if stated is None else decode_at("result", decode_run, stated)
        attempt = Attempt(**decode_fields(Attempt, row, _RESULT), result=result)
        _demand_attempt(attempt)
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return attempt


def read_stored_attempt(content: bytes, name: str, url: str = "") -> Attempt:
    """Read the attempt that a store has under that name; messages name the store by its URL.

    Raises RecordError as `read_attempt` does, and for the document of another attempt.
    """
    named = f"{url}: {name}" if url else name
    attempt = read_attempt(content, named)
    about = (attempt.night, attempt.cell, attempt.stage, attempt.number)
    if result_name(*about) != name:
        said = " ".join(map(str, about))
        raise RecordError(f"{named}: its document is of another attempt: {cut(one_line(said))}")
    return attempt


def lose_attempt(name: str, night: str, sha256: str, why: object) -> Attempt:
    """The attempt that a store has under that name, where its document cannot be counted."""
    cell, stage, number = split_attempt(name) or ("", "", 0)
    return Attempt(
        night=night,
        cell=cell,
        stage=stage,
        number=number,
        state=CellState.LOST,
        reason=cut(one_line(f"its result cannot be counted: {why}")),
        cause="unreadable-result",
        cause_kind="infra",
        again=True,
        started=_NOBODY_KNOWS,
        seconds=0.0,
        sha256=sha256,
    )


def describe_plans() -> dict[str, Any]:
    """The JSON Schema of a plan, out of the types that it is written from."""
    return describe_document(PLAN_SCHEMA, NightPlan)


def describe_attempts() -> dict[str, Any]:
    """The JSON Schema of an attempt; its result is a document with a schema of its own."""
    described = describe_document(ATTEMPT_SCHEMA, Attempt, _RESULT)
    result = {"anyOf": [{"$ref": "result.schema.json"}, {"type": "null"}], "default": None}
    return {**described, "properties": {**described["properties"], "result": result}}


def write_document(row: dict[str, Any]) -> bytes:
    """The bytes of a document with that row, which names its schema: of equal rows the same."""
    return f"{dump(row)}\n".encode("ascii")


def open_document(content: bytes, schema: str) -> dict[str, Any]:
    """The fields of a document of that schema, behind the schema. Raises OddityError."""
    kind, _, number = schema.rpartition("/")
    if len(content) > _LARGEST:
        raise OddityError(f"larger than {_LARGEST} bytes")
    try:
        row = read_json(content.decode("ascii"))
    except UnicodeDecodeError as error:
        raise OddityError(f"not ASCII at byte {error.start:#x}") from None
    if not isinstance(row, dict) or not isinstance(found := row.pop("schema", None), str):
        raise OddityError(f"not a document {kind}")
    if found == schema:
        return row
    before, _, theirs = found.rpartition("/")
    if before == kind and theirs.isdecimal() and len(theirs) < 9 and int(theirs) > int(number):
        raise OddityError(f"its schema is {found}: a newer binary-checks wrote it, update this one")
    raise OddityError(f"its schema is {found!r:.80}, not {schema}")


def _demand_attempt(attempt: Attempt) -> None:
    _demand_night(attempt.night)
    for name in ("sha256", "facts", "log"):
        if digest := getattr(attempt, name):  # of a cell that had nothing to judge there is none
            demand_digest(name, digest)
    for name in ("seconds", "cpu_seconds", "peak_memory", "signal"):
        if getattr(attempt, name) < 0:
            raise OddityError(f"{name}: less than 0")
    if attempt.stage not in (CPU, GPU) or attempt.number < 1:
        raise OddityError(f"{attempt.stage!r:.20}, {attempt.number}: not the number of an attempt")
    if attempt.state in _OF_CELLS_ALONE:
        raise OddityError(f"state: {attempt.state.value}: no attempt ends so")


def _demand_night(night: str) -> None:
    if not is_night(night):
        raise OddityError(f"night: {night!r:.40} is not a date")


def demand_digest(name: str, value: str) -> None:
    """Raise OddityError for what is no SHA-256, an empty text among it."""
    if not _DIGEST.fullmatch(value):
        raise OddityError(f"{name}: not the 64 hexadecimal digits of a digest")


def _demand_id(cell: str) -> None:
    if not _ID.fullmatch(cell):
        raise OddityError(f"cells: {cell!r:.80} is not the id of a cell")


def demand_relative(name: str, path: str) -> None:
    """Raise OddityError for a path that leads anywhere but below a folder."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or set("\\:\0") & set(path):
        raise OddityError(f"{name}: {path!r:.80} is not a path below a folder")


def _demand_unique(ids: Iterable[str]) -> None:
    seen = set[str]()
    for each in ids:
        if each in seen:
            raise OddityError(f"cells: {each!r:.80} is listed twice")
        seen.add(each)
