"""Finds the facts of a cell in a store: those of one night, or of the last that was good."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.documents.builds import read_build
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.attempts import CPU
from binary_checks.fleet.final_states import CellEnd, final_state
from binary_checks.fleet.nights.night_dates import choose_night, read_date
from binary_checks.fleet.plan import PlannedCell
from binary_checks.fleet.states import GOOD
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.kept_facts import open_facts
from binary_checks.fleet.stored_nights import NightAttempts, find_plan, list_nights
from binary_checks.model.run_results import Build


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFacts:
    """Where the facts of a cell are."""

    night: str
    planned: PlannedCell
    facts: str  # the SHA-256 under which the store has them


def find_cell_facts(store: Store, cell: str, night: str = "", before: str = "") -> FoundFacts:
    """The facts of that night, however it ended; without one of the last night that was good.

    ``before`` leaves out that night and all later ones. Raises StoreError where there are none.
    """
    if night:
        planned, end = _look(store, cell, choose_night(store, night))
        if planned is None:
            raise StoreError(f"{store.url}: the plan of {night} has no cell {cell}")
        if facts := _facts_of(end):
            return FoundFacts(night=night, planned=planned, facts=facts)
        reason = f": {end.reason}" if end is not None and end.reason else ""
        raise StoreError(f"{store.url}: {cell} has no facts of {night}{reason}")
    known = False
    for each in reversed(list_nights(store)):
        if before and each >= before:
            continue
        planned, end = _look(store, cell, each)
        known = known or planned is not None
        good = end is not None and end.state in GOOD
        if planned is not None and good and (facts := _facts_of(end)):
            return FoundFacts(night=each, planned=planned, facts=facts)
    if not known and not before:
        raise ProfileError(f"{store.url}: no night has a cell {cell}")
    when = f" before {before}" if before else ""
    raise StoreError(f"{store.url}: no good night of {cell}{when} that has facts")


def _look(store: Store, cell: str, night: str) -> tuple[PlannedCell | None, CellEnd | None]:
    """What was planned for it, and how it ended; None of both where it was not planned."""
    plan = find_plan(store, night)
    planned = next((each for each in plan.cells if each.cell.id == cell), None) if plan else None
    if planned is None:
        return None, None
    return planned, final_state(planned, NightAttempts(store, night).read(cell))


def _facts_of(end: CellEnd | None) -> str:
    """Those of the last attempt of the first stage that left some."""
    attempts = end.attempts if end is not None else ()
    found = [each.facts for each in attempts if each.stage == CPU and each.facts]
    return found[-1] if found else ""


def read_found(store: Store, found: FoundFacts) -> Build:
    """The build that the facts are of. Raises StoreError where the store has lost them."""
    named = f"{store.url}: facts of {found.planned.cell.id} of {found.night}"
    with open_facts(store, found.facts) as path:
        return read_build(path, named)


def read_stored_build(url: str | None, named: str) -> Build:
    """The build that ``store:CELL@DATE`` or ``store:CELL`` names, without ``store:``.

    Raises ProfileError for a name that is none, StoreError where it is not there.
    """
    if not url:
        raise ProfileError(f"store:{named}: give the store with --store URL")
    cell, at, night = named.rpartition("@")
    if not at:
        cell, night = named, ""
    if not cell:
        raise ProfileError(f"store:{named}: no cell; it is store:CELL@DATE, or store:CELL")
    if at:
        read_date(night, f"store:{cell}@DATE:")
    store = open_store(url)
    return read_found(store, find_cell_facts(store, cell, night))
