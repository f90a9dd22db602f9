"""The nights in a store: their plans, their attempts, and the facts of their cells."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from binary_checks.documents.builds import read_build
from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import (
    DocumentError,
    decode_at,
    decode_fields,
    dump,
    encode_fields,
    read_json,
)
from binary_checks.documents.result import decode_run, encode_run
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.night import (
    ATTEMPT_SCHEMA,
    CPU,
    GOOD,
    GPU,
    PLAN_SCHEMA,
    Attempt,
    CellEnd,
    NightPlan,
    final_state,
)
from binary_checks.fleet.store import (
    NIGHT,
    NIGHTS,
    Store,
    ask_at_once,
    closed_name,
    frozen_name,
    is_night,
    log_name,
    open_store,
    plan_name,
    result_name,
    result_prefix,
    split_attempt,
)
from binary_checks.fleet.store.kept_facts import open_facts
from binary_checks.model import Build, CellState
from binary_checks.safe_text import cut, one_line


def list_nights(store: Store) -> list[str]:
    """Return all nights of the store, the oldest first."""
    found = (NIGHT.fullmatch(name) for name in store.folders(NIGHTS))
    return sorted(each[1] for each in found if each)


def closed_nights(store: Store) -> tuple[str, ...]:
    """Return the closed nights, whose tables no longer change, the oldest first."""
    nights = list_nights(store)
    marks = ask_at_once(store.read, map(closed_name, nights))
    return tuple(night for night, mark in zip(nights, marks, strict=True) if mark is not None)


def find_plan(store: Store, night: str) -> NightPlan | None:
    """Return the night's plan, or None if there is none. Raises RecordError."""
    name = plan_name(night)
    content = store.read(name)
    if content is None:
        return None
    plan = read_plan(content, f"{store.url}: {name}")
    if plan.night != night:
        raise RecordError(f"{store.url}: {name}: it is the plan of {plan.night}")
    return plan


def require_plan(store: Store, night: str) -> NightPlan:
    """Return the night's plan. Raises StoreError if it is missing or unreadable."""
    plan = find_plan(store, night)
    if plan is None:
        raise StoreError(f"{store.url}: {plan_name(night)}: the night has no plan")
    return plan


def keep_plan(store: Store, plan: NightPlan, frozen: Mapping[str, bytes]) -> NightPlan:
    """Store a plan unless the night has one; return the plan that counts.

    Its frozen files are stored first, so that a stored plan is complete. If several coordinators
    plan at the same time, one of them wins.
    """
    for sha256, content in frozen.items():
        store.create(frozen_name(plan.night, sha256), content)
    store.create(plan_name(plan.night), write_plan(plan))
    return find_plan(store, plan.night) or plan


class NightAttempts:
    """The attempts of a night by cell; its results are listed once, when first needed."""

    def __init__(self, store: Store, night: str) -> None:
        self._store, self._night = store, night

    def read(self, cell: str, broken: list[str] | None = None) -> Iterator[Attempt]:
        """Yield a cell's valid attempts; invalid ones add a line to ``broken``."""
        for name in self._names.get(cell, ()):
            content = self._store.read(name)
            try:
                if content is not None:
                    yield read_stored_attempt(content, name, self._store.url)
            except RecordError as error:
                if broken is not None:
                    broken.append(str(error))

    @cached_property
    def _names(self) -> Mapping[str, list[str]]:
        """Names of the attempts' documents by cell, in order."""
        found: dict[str, list[str]] = {}
        for stored in self._store.names(result_prefix(self._night)):
            attempt = split_attempt(stored.name)
            if attempt is not None and stored.name == result_name(self._night, *attempt):
                found.setdefault(attempt[0], []).append(stored.name)
        return found


def name_log(attempt: Attempt) -> str:
    """Return the name of an attempt's log, or "" if it has none."""
    if not attempt.log:
        return ""
    about = attempt.cell, attempt.stage, attempt.number
    return log_name(attempt.night, about, attempt.log, good=attempt.state in GOOD)


def read_frozen(store: Store, name: str) -> bytes:
    """Return a frozen file. Raises StoreError if its bytes differ from the frozen ones."""
    content = store.read(name)
    if content is None:
        raise StoreError(f"{store.url}: {name}: missing, although the plan names it")
    if not name.endswith(f"/{hashlib.sha256(content).hexdigest()}.toml"):
        raise StoreError(f"{store.url}: {name}: its bytes differ from the frozen ones")
    return content


# Plans and attempts as documents: canonical bytes, read back strictly.

_NOBODY_KNOWS = "1970-01-01T00:00:00Z"  # start of an attempt whose document cannot be read
_RESULT = frozenset({"result"})
_LARGEST = 64 << 20  # bytes of a document; reading it takes twenty times that much memory
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")  # ids become names of files
_DIGEST = re.compile("[0-9a-f]{64}")
_OF_CELLS_ALONE = frozenset({CellState.FLAKY, CellState.STALE, CellState.MISSING})


def write_plan(plan: NightPlan) -> bytes:
    """Return a plan's document; equal plans give the same bytes."""
    return write_document({"schema": PLAN_SCHEMA, **encode_fields(plan)})


def read_plan(content: bytes, named: str) -> NightPlan:
    """Read a plan's document; ``named`` is its name in messages.

    Raises RecordError with a message of one line if it is truncated, corrupt or of another schema.
    """
    try:
        plan = NightPlan(**decode_fields(NightPlan, open_document(content, PLAN_SCHEMA)))
        _require_night(plan.night)
        for path in plan.profiles:  # these become names of files where a cell runs
            if {"", ".", ".."}.intersection(path.split("/")) or set("\\:\0") & set(path):
                fault = f"profiles: {path!r:.80} is not a relative path below a folder"
                raise DocumentError(fault)
        for cell, number in Counter(each.cell.id for each in plan.cells).items():
            if not _ID.fullmatch(cell):
                raise DocumentError(f"cells: {cell!r:.80} is not a valid cell id")
            if number > 1:
                raise DocumentError(f"cells: {cell!r:.80} is listed twice")
        for each in plan.cells:
            if each.sha256:  # empty if nothing is published
                require_digest("sha256", each.sha256)
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return plan


def write_attempt(attempt: Attempt) -> bytes:
    """Return an attempt's document, which contains its run's result."""
    row = encode_fields(attempt, _RESULT)
    result = {} if attempt.result is None else {"result": encode_run(attempt.result)}
    return write_document({"schema": ATTEMPT_SCHEMA, **row, **result})


def read_attempt(content: bytes, named: str) -> Attempt:
    """Read an attempt's document; ``named`` is its name in messages.

    Raises RecordError with a message of one line if the document or its result is truncated,
    corrupt or of another schema. Callers then count the attempt as lost.
    """
    try:
        row = open_document(content, ATTEMPT_SCHEMA)
        stated = row.pop("result", None)
        result = None if stated is None else decode_at("result", decode_run, stated)
        attempt = Attempt(**decode_fields(Attempt, row, _RESULT), result=result)
        _require_sound(attempt)
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return attempt


def read_stored_attempt(content: bytes, name: str, url: str = "") -> Attempt:
    """Read the attempt stored under a name; messages name the store by its URL.

    Raises RecordError as `read_attempt` does, and if the document is of another attempt.
    """
    named = f"{url}: {name}" if url else name
    attempt = read_attempt(content, named)
    about = (attempt.night, attempt.cell, attempt.stage, attempt.number)
    if result_name(*about) != name:
        text = " ".join(map(str, about))
        raise RecordError(f"{named}: its document is for another attempt: {cut(one_line(text))}")
    return attempt


def make_unreadable_attempt(name: str, night: str, sha256: str, why: object) -> Attempt:
    """Return a lost attempt in place of a stored attempt that cannot be read."""
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
    """Return the JSON Schema of a plan."""
    return describe_document(PLAN_SCHEMA, NightPlan)


def describe_attempts() -> dict[str, Any]:
    """Return the JSON Schema of an attempt; its result has a schema of its own."""
    described = describe_document(ATTEMPT_SCHEMA, Attempt, _RESULT)
    result = {"anyOf": [{"$ref": "result.schema.json"}, {"type": "null"}], "default": None}
    return {**described, "properties": {**described["properties"], "result": result}}


def write_document(row: dict[str, Any]) -> bytes:
    """Return a document's bytes; equal rows give the same bytes. The row names its schema."""
    return f"{dump(row)}\n".encode("ascii")


def open_document(content: bytes, schema: str) -> dict[str, Any]:
    """Return a document's fields without its schema. Raises DocumentError for another schema."""
    kind, _, number = schema.rpartition("/")
    if len(content) > _LARGEST:
        raise DocumentError(f"larger than {_LARGEST} bytes")
    try:
        row = read_json(content.decode("ascii"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"not ASCII at byte {error.start:#x}") from None
    if not isinstance(row, dict) or not isinstance(found := row.pop("schema", None), str):
        raise DocumentError(f"not a document {kind}")
    if found == schema:
        return row
    before, _, theirs = found.rpartition("/")
    if before == kind and theirs.isdecimal() and len(theirs) < 9 and int(theirs) > int(number):
        raise DocumentError(
            f"its schema is {found}: a newer binary-checks wrote it; update this one"
        )
    raise DocumentError(f"its schema is {found!r:.80}, not {schema}")


def _require_sound(attempt: Attempt) -> None:
    _require_night(attempt.night)
    for name in ("sha256", "facts", "log"):
        if digest := getattr(attempt, name):  # empty if the cell had nothing to judge
            require_digest(name, digest)
    for name in ("seconds", "cpu_seconds", "peak_memory", "signal"):
        if getattr(attempt, name) < 0:
            raise DocumentError(f"{name}: less than 0")
    if attempt.stage not in (CPU, GPU) or attempt.number < 1:
        raise DocumentError(
            f"{attempt.stage!r:.20}, {attempt.number}: not a stage and number of an attempt"
        )
    if attempt.state in _OF_CELLS_ALONE:
        raise DocumentError(f"state: {attempt.state.value}: attempts cannot have this state")


def _require_night(night: str) -> None:
    if not is_night(night):
        raise DocumentError(f"night: {night!r:.40} is not a date")


def require_digest(name: str, value: str) -> None:
    """Raise DocumentError unless the value is a SHA-256."""
    if not _DIGEST.fullmatch(value):
        raise DocumentError(f"{name}: not a digest of 64 hexadecimal digits")


# Choosing a night: today's in UTC, the night of a date, or the newest in a store.


def tonight() -> str:
    """Return today's date in UTC, which names the night."""
    return datetime.now(timezone.utc).date().isoformat()


def now() -> str:
    """Return the current time in UTC, in the form that documents use."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def read_date(text: str, given: str = "") -> str:
    """Return a date that a user gave. Raises ProfileError, naming ``given``, for other texts."""
    if not is_night(text):
        raise ProfileError(f"{given or '--date'} {text!r:.40}: not a date such as {tonight()}")
    return text


def choose_night(store: Store, named: str = "") -> str:
    """Return the named night, or the newest. Raises StoreError if there is none."""
    nights = list_nights(store)
    if named and read_date(named) not in nights:
        newest = f"; the newest is {nights[-1]}" if nights else ""
        raise StoreError(f"{store.url}: no night {named}{newest}")
    if not nights:
        raise StoreError(
            f"{store.url}: it has no nights yet: `binary-checks nightly run` makes one"
        )
    return named or nights[-1]


# Finding a cell's facts: in one night, or in the cell's last good night.


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFacts:
    """The place of a cell's facts in the store."""

    night: str
    cell: str  # id
    facts: str  # SHA-256 under which the store has them


def find_cell_facts(store: Store, cell: str, night: str = "", before: str = "") -> FoundFacts:
    """Return the facts of a cell in a night; without a night, in the cell's last good night.

    ``before`` excludes that night and all later ones. Raises StoreError if there are none.
    """
    ended: dict[str, CellEnd] = {}
    for each in [choose_night(store, night)] if night else reversed(list_nights(store)):
        plan = find_plan(store, each) if not before or each < before else None
        for planned in plan.cells if plan else ():
            if planned.cell.id == cell:
                end = ended[each] = final_state(planned, NightAttempts(store, each).read(cell))
                facts = [made.facts for made in end.attempts if made.stage == CPU and made.facts]
                if facts and (night or end.state in GOOD):
                    return FoundFacts(night=each, cell=cell, facts=facts[-1])
    if night in ended:
        reason = f": {ended[night].reason}" if ended[night].reason else ""
        raise StoreError(f"{store.url}: {cell} has no facts of {night}{reason}")
    if night:
        raise StoreError(f"{store.url}: the plan of {night} has no cell {cell}")
    if not ended and not before:
        raise ProfileError(f"{store.url}: no night has a cell {cell}")
    when = f" before {before}" if before else ""
    raise StoreError(f"{store.url}: no good night of {cell}{when} has facts")


def read_found(store: Store, found: FoundFacts) -> Build:
    """Return the build with these facts. Raises StoreError if they are missing or invalid."""
    try:
        with open_facts(store, found.facts) as path:
            return read_build(path, f"{store.url}: facts of {found.cell} of {found.night}")
    except ProfileError as error:
        raise RecordError(str(error)) from None


def read_stored_build(url: str | None, named: str) -> Build:
    """Return the build named CELL@DATE or CELL, as in ``store:CELL@DATE`` on a command line.

    Raises ProfileError for an invalid name, and StoreError if the build is not there.
    """
    if not url:
        raise ProfileError(f"store:{named}: give the store with --store URL")
    cell, at, night = named.rpartition("@")
    if not at:
        cell, night = named, ""
    if not cell:
        raise ProfileError(f"store:{named}: no cell; expected store:CELL@DATE or store:CELL")
    if at:
        read_date(night, f"store:{cell}@DATE:")
    store = open_store(url)
    return read_found(store, find_cell_facts(store, cell, night))
