"""The end of a night: the mark after which nothing in its folder changes any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import encode_fields
from binary_checks.errors import RecordError
from binary_checks.fleet.attempts import CPU, GPU, Attempt
from binary_checks.fleet.plan import NightPlan
from binary_checks.fleet.records import open_document, write_document
from binary_checks.fleet.states import GOOD
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import closed_name

CLOSED_SCHEMA = "binary-checks/closed/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedCell:
    """A cell that an index offered other bytes for when the night was closed."""

    cell: str  # id
    reason: str  # one line


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosedNight:
    """How a night ended as a whole."""

    night: str
    closed: str  # RFC 3339, UTC
    states: Mapping[str, int] = field(default_factory=dict)  # cells by state
    changed: tuple[ChangedCell, ...] = ()  # what the indexes had other by then
    complaints: tuple[str, ...] = ()  # of what could not be read, one line each


def list_waiting(plan: NightPlan, attempts: Mapping[str, Sequence[Attempt]]) -> list[str]:
    """The cells of which a result is still to come: nothing ran, or not yet on a GPU host."""
    waiting = []
    for each in plan.cells:
        made = attempts.get(each.cell.id, ())
        passed = any(one.stage == CPU and one.state in GOOD for one in made)
        ended = {one.stage for one in made}
        if each.state is None and (not made or (each.cell.gpu and passed and GPU not in ended)):
            waiting.append(each.cell.id)
    return waiting


def close_night(store: Store, ended: ClosedNight) -> ClosedNight:
    """Close it; of several that do so at once the first one's mark stands. Returns that."""
    content = write_document({"schema": CLOSED_SCHEMA, **encode_fields(ended)})
    store.create(closed_name(ended.night), content)
    return read_closed(store, ended.night) or ended


def read_closed(store: Store, night: str) -> ClosedNight | None:
    """The mark of a night that is over; None of one that goes on. Raises RecordError."""
    content = store.read(closed_name(night))
    if content is None:
        return None
    try:
        row = open_document(content, CLOSED_SCHEMA)
        return ClosedNight(**decode_fields(ClosedNight, row))
    except OddityError as error:
        raise RecordError(f"{store.url}: {closed_name(night)}: {error}") from None
