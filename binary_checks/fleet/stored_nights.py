"""What a store has of its nights: which there are, their plans, and the attempts at a cell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property

from binary_checks.errors import RecordError, StoreError
from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.plan import NightPlan
from binary_checks.fleet.records import read_plan, read_stored_attempt, write_plan
from binary_checks.fleet.states import GOOD
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import (
    NIGHT,
    NIGHTS,
    closed_name,
    frozen_name,
    log_name,
    plan_name,
    result_name,
    result_prefix,
    split_attempt,
)


def list_nights(store: Store) -> list[str]:
    """Every night of the store, the oldest first."""
    found = (NIGHT.fullmatch(name) for name in store.folders(NIGHTS))
    return sorted(each[1] for each in found if each)


def closed_nights(store: Store) -> tuple[str, ...]:
    """The nights that are over, oldest first: only their tables never change."""
    nights = list_nights(store)
    marks = ask_at_once(store.read, map(closed_name, nights))
    return tuple(night for night, mark in zip(nights, marks, strict=True) if mark is not None)


def find_plan(store: Store, night: str) -> NightPlan | None:
    """The plan that the night has; None: it has none yet. Raises RecordError."""
    name = plan_name(night)
    content = store.read(name)
    if content is None:
        return None
    plan = read_plan(content, f"{store.url}: {name}")
    if plan.night != night:
        raise RecordError(f"{store.url}: {name}: is the plan of {plan.night}")
    return plan


def demand_plan(store: Store, night: str) -> NightPlan:
    """The plan that the night has. Raises StoreError where there is none, or it is unreadable."""
    plan = find_plan(store, night)
    if plan is None:
        raise StoreError(f"{store.url}: {plan_name(night)}: a night without a plan")
    return plan


def keep_plan(store: Store, plan: NightPlan, frozen: Mapping[str, bytes]) -> NightPlan:
    """Keep a plan, unless there is one; returns that which counts.

    What is frozen with it comes first: a plan that is there has all that it names. Of coordinators
    that plan at the same time one wins.
    """
    for sha256, content in frozen.items():
        store.create(frozen_name(plan.night, sha256), content)
    store.create(plan_name(plan.night), write_plan(plan))
    return find_plan(store, plan.night) or plan


class NightAttempts:
    """The attempts of a night, cell by cell; its results are listed once, when first asked for."""

    def __init__(self, store: Store, night: str) -> None:
        self._store, self._night = store, night

    def read(self, cell: str, broken: list[str] | None = None) -> Iterator[Attempt]:
        """A cell's attempts whose documents are whole; of others ``broken`` gets a line each."""
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
        """The names of documents by cell, in order."""
        found: dict[str, list[str]] = {}
        for stored in self._store.names(result_prefix(self._night)):
            attempt = split_attempt(stored.name)
            if attempt is not None and stored.name == result_name(self._night, *attempt):
                found.setdefault(attempt[0], []).append(stored.name)
        return found


def name_log(attempt: Attempt) -> str:
    """The name of the log that the attempt's document means; "" where it means none."""
    if not attempt.log:
        return ""
    about = attempt.cell, attempt.stage, attempt.number
    return log_name(attempt.night, about, attempt.log, good=attempt.state in GOOD)


def read_frozen(store: Store, name: str) -> bytes:
    """A file that was frozen with a plan. Raises StoreError unless it is the one that it froze."""
    content = store.read(name)
    if content is None:
        raise StoreError(f"{store.url}: {name}: not there, and the plan has it")
    return demand_frozen(content, f"{store.url}: {name}")


def demand_frozen(content: bytes, named: str) -> bytes:
    """Raise StoreError for other bytes than those whose hash is the name."""
    digest = hashlib.sha256(content).hexdigest()
    if not named.endswith(f"/{digest}.toml"):
        raise StoreError(f"{named}: other bytes than those that the plan froze")
    return content
