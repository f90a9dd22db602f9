"""Takes a night's results over from other stores: the folders that jobs of a CI system left behind.

A job without credentials of the store runs its shard into a folder, and uploads that. Nothing in
such a folder is believed before it was read: it may come from a fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.records import read_plan, read_stored_attempt, write_attempt
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.kept_facts import find_facts, keep_facts, open_facts
from binary_checks.fleet.store.store_names import (
    LOG_FOLDERS,
    MARK,
    frozen_name,
    log_name,
    plan_name,
    result_name,
    result_prefix,
)
from binary_checks.fleet.stored_nights import demand_frozen, list_nights

_DEPTH = 2  # folders between the one named and a store: a folder an artifact, a folder in it
_MOST_ATTEMPTS = 100  # of one stage of a cell: a night makes three, and each job its own


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """What was taken over, and what could not be."""

    attempts: int = 0  # documents that the store did not have
    known: int = 0  # those that it had already
    complaints: tuple[str, ...] = ()


def merge_night(store: Store, night: str, folders: list[Path]) -> Merged:
    """Take the night's plan, results, logs and facts over from the stores in those folders.

    Taking over twice is the same as once. Raises ProfileError for a folder without any store, and
    StoreError where one has another plan of that night: its results are of other bytes.
    """
    found = Merged()
    for folder in folders:
        for other in _find_stores(folder):
            found = _add(found, _merge(store, other, night))
    return found


def find_nights(folders: list[Path]) -> set[str]:
    """The nights that the stores in those folders have."""
    return {
        night
        for folder in folders
        for other in _find_stores(folder)
        for night in list_nights(other)
    }


def _find_stores(folder: Path) -> Iterator[Store]:
    """The stores in a folder: it may be one itself, or have several below it."""
    marks = [
        mark
        for depth in range(_DEPTH + 1)
        for mark in sorted(folder.glob("/".join((*["*"] * depth, MARK))))
    ]
    if not marks:
        raise ProfileError(f"--from: {folder}: no store in it: no {MARK} there or just below")
    for mark in marks:
        yield open_store(str(mark.parent))


def _add(one: Merged, other: Merged) -> Merged:
    return Merged(
        attempts=one.attempts + other.attempts,
        known=one.known + other.known,
        complaints=(*one.complaints, *other.complaints),
    )


def _merge(store: Store, other: Store, night: str) -> Merged:
    content = other.read(plan_name(night))
    if content is None:
        return Merged(complaints=(f"{other.url}: nothing of the night {night}",))
    plan = read_plan(content, f"{other.url}: {plan_name(night)}")
    if plan.night != night:
        raise RecordError(f"{other.url}: {plan_name(night)}: is the plan of {plan.night}")
    _take_plan(store, other, plan, content)
    found, cells = Merged(), {each.cell.id: each for each in plan.cells}
    for each in other.names(result_prefix(night)):
        found = _add(found, _take_attempt(store, other, cells, each.name))
    return found


def _take_plan(store: Store, other: Store, plan: NightPlan, content: bytes) -> None:
    """Take the plan over, after the files that it names; a store has one plan a night."""
    name = plan_name(plan.night)
    ours = store.read(name)
    if ours is None:
        for sha256 in _frozen(plan):
            frozen = other.read(frozen_name(plan.night, sha256))
            if frozen is not None:
                demand_frozen(frozen, f"{other.url}: {frozen_name(plan.night, sha256)}")
                store.create(frozen_name(plan.night, sha256), frozen)
        store.create(name, content)
        ours = store.read(name)
    if ours != content:
        raise StoreError(
            f"{other.url}: {name}: is not the plan of {store.url}: its results may be of other "
            "bytes; give every job of a night the one plan"
        )


def _frozen(plan: NightPlan) -> list[str]:
    named = {plan.cells_sha256, plan.known_sha256, plan.causes_sha256, *plan.profiles.values()}
    return sorted(named - {""})


def _take_attempt(
    store: Store, other: Store, cells: Mapping[str, PlannedCell], name: str
) -> Merged:
    """Take one attempt over: its facts and its log first, for the result says that all is there."""
    try:
        attempt = read_stored_attempt(other.read(name) or b"", name, other.url)
    except (RecordError, StoreError) as error:
        return Merged(complaints=(f"{error}",))
    planned = cells.get(attempt.cell)
    if planned is None or planned.sha256 != attempt.sha256:
        return Merged(complaints=(f"{other.url}: {name}: not of the bytes that the plan names",))
    number = _find_number(store, attempt)
    if number is None:
        return Merged(known=1)
    if number > _MOST_ATTEMPTS:
        return Merged(complaints=(f"{other.url}: {name}: one of more than {_MOST_ATTEMPTS}",))
    complaints = _take_facts(store, other, attempt)
    _take_log(store, other, attempt, number)
    taken = replace(attempt, number=number, facts="" if complaints else attempt.facts)
    store.create(result_name(taken.night, taken.cell, taken.stage, number), write_attempt(taken))
    return Merged(attempts=1, complaints=complaints)


def _find_number(store: Store, attempt: Attempt) -> int | None:
    """The first number that no other attempt has; None where the store has this very attempt.

    Two jobs that ran one cell both call theirs the first.
    """
    for number in range(attempt.number, _MOST_ATTEMPTS + 1):
        name = result_name(attempt.night, attempt.cell, attempt.stage, number)
        there = store.read(name)
        if there is None:
            return number
        if there in (
            write_attempt(replace(attempt, number=number)),
            write_attempt(replace(attempt, number=number, facts="")),
        ):
            return None
    return _MOST_ATTEMPTS + 1


def _take_facts(store: Store, other: Store, attempt: Attempt) -> tuple[str, ...]:
    if not attempt.facts:
        return ()
    if attempt.facts != attempt.sha256:  # for all nights they would be another package's
        return (f"{other.url}: {attempt.cell}: its facts are those of another package",)
    if find_facts(other, attempt.facts) is None:
        return (f"{other.url}: the facts of {attempt.facts} are missing; {attempt.cell} has none",)
    try:
        with open_facts(other, attempt.facts) as path:
            keep_facts(store, attempt.facts, path)
    except RecordError as error:
        return (f"{error}",)
    return ()


def _take_log(store: Store, other: Store, attempt: Attempt, number: int) -> None:
    about = (attempt.cell, attempt.stage)
    for folder in LOG_FOLDERS:
        content = other.read(log_name(attempt.night, folder, *about, attempt.number))
        if content is not None:
            store.create(log_name(attempt.night, folder, *about, number), content)
