"""What the cells of a night accepted by its frozen list, and which of its entries that leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.night import NightPlan, PlannedCell, final_state
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import frozen_name
from binary_checks.fleet.stored_nights import NightAttempts, demand_plan, read_frozen
from binary_checks.model import Problem
from binary_checks.model.outcomes import CellState
from binary_checks.profile.known import KnownList, KnownProblem, read_known_list

LONG = 5
"""Nights in which an entry matches nothing, after which it is to be removed."""
LOOKED_AT = 10
"""Nights that are looked at to find so many in which that could be told."""
_JUDGED = frozenset({CellState.PASSED, CellState.KNOWN, CellState.FAILED, CellState.FLAKY})
Key = tuple[str, str, tuple[str, ...] | None, str, str, str]


class CellOfNight(Protocol):
    """How a cell ended, as the tables have it."""

    @property
    def cell(self) -> str:
        """Its id."""

    @property
    def state(self) -> CellState:
        """How its night ended."""

    @property
    def accepted(self) -> int:
        """Problems that were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedProblem:
    """A problem that a cell's attempt accepted."""

    planned: PlannedCell
    file_name: str
    check: str
    problem: Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class WaivedNight:
    """One night: its list, what was accepted, and the cells that say nothing of that."""

    night: str
    listed: KnownList
    accepted: Mapping[
        str, Mapping[tuple[str, ...], Sequence[AcceptedProblem]]
    ]  # by check and facts
    unjudged: Sequence[PlannedCell]

    def matched(self, entry: KnownProblem) -> bool | None:
        """Whether the entry accepted anything; None where that is not known.

        It is not known of one that had expired, or that may speak of a cell that was not judged.
        """
        of_check = self.accepted.get(entry.check, {})
        for facts in of_check if entry.facts is None else (entry.facts,):
            if any(_covers(entry, each) for each in of_check.get(facts, ())):
                return True
        if entry.has_expired(date.fromisoformat(self.night)):
            return None
        return None if any(_may_concern(entry, each) for each in self.unjudged) else False


def key_of(entry: KnownProblem) -> Key:
    """By what an entry is the same one night after night: what it accepts, and where."""
    cells = entry.cells.written if entry.cells else ""
    return entry.check, entry.path, entry.facts, entry.match, entry.package, cells


def _covers(entry: KnownProblem, found: AcceptedProblem) -> bool:
    return (
        entry.covers(found.problem)
        and entry.selects(found.file_name)
        and entry.holds_in(found.planned.cell)
    )


def _may_concern(entry: KnownProblem, planned: PlannedCell) -> bool:
    named = not planned.file_name or entry.selects(planned.file_name)
    return named and entry.holds_in(planned.cell)


def read_waived_night(
    store: Store, plan: NightPlan, rows: Iterable[CellOfNight]
) -> WaivedNight | None:
    """What a night's results say; None where no list held. Raises StoreError, ProfileError."""
    if plan.known_complaint or not plan.known_sha256:
        return None
    ended = {row.cell: row for row in rows}
    name = frozen_name(plan.night, plan.known_sha256)
    accepted: dict[str, dict[tuple[str, ...], list[AcceptedProblem]]] = {}
    attempts = NightAttempts(store, plan.night)
    for planned in plan.cells:
        row = ended.get(planned.cell.id)
        if row is not None and row.accepted:
            found = [*_read_accepted(attempts, planned)]
            if len(found) < row.accepted:
                raise ProfileError(f"night {plan.night}: {row.cell}: a result of it is gone")
            for each in found:
                of_check = accepted.setdefault(each.check, {})
                of_check.setdefault(each.problem.facts, []).append(each)
    return WaivedNight(
        night=plan.night,
        listed=read_known_list(read_frozen(store, name), "of the night"),
        accepted=accepted,
        unjudged=tuple(
            planned
            for planned in plan.cells
            if (row := ended.get(planned.cell.id)) is None or row.state not in _JUDGED
        ),
    )


def _read_accepted(attempts: NightAttempts, planned: PlannedCell) -> Iterator[AcceptedProblem]:
    """What the attempts accepted that decide, one of each stage."""
    cell = planned.cell.id
    for attempt in final_state(planned, attempts.read(cell)).last.values():
        for package, entry in attempt.result.entries() if attempt.result else ():
            for each in entry.accepted:
                yield AcceptedProblem(
                    planned=planned,
                    file_name=package.file_name,
                    check=entry.check,
                    problem=each.problem,
                )


def read_before(
    store: Store, rows: Mapping[str, Iterable[CellOfNight]]
) -> Iterator[WaivedNight | None]:
    """The nights, the latest first; None for one of which that is not known any more."""
    for night in sorted(rows, reverse=True):
        try:
            yield read_waived_night(store, demand_plan(store, night), rows[night])
        except (ProfileError, StoreError, OSError):  # gone by retention, or cut
            yield None


def find_removable(
    entries: Iterable[KnownProblem], nights: Iterable[WaivedNight | None]
) -> list[KnownProblem]:
    """The entries that matched nothing in the latest five nights that tell, the latest first."""
    left = {key_of(each): each for each in entries}
    counted = dict.fromkeys(left, 0)
    for night in nights:
        if not any(count < LONG for count in counted.values()):
            break
        if night is None:
            continue
        in_force = {key_of(each) for each in night.listed.entries}
        for key in [key for key in counted if counted[key] < LONG]:
            matched = night.matched(left[key])
            if matched or key not in in_force:
                del counted[key]
            else:
                counted[key] += matched is False
    return [left[key] for key, count in counted.items() if count == LONG]
