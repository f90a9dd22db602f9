"""What is to be said of a night beside its cells: its index, and its known problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from binary_checks.documents.result_reader import decode_results
from binary_checks.errors import BinaryChecksError, ProfileError
from binary_checks.fleet.final_states import final_state
from binary_checks.fleet.page.history import CellNight
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import frozen_name, result_name
from binary_checks.fleet.stored_nights import NightAttempts
from binary_checks.lines import cut, one_line
from binary_checks.model import Accepted
from binary_checks.profile.known import KnownProblem
from binary_checks.profile.known_validity import load_known_list

_SOON = timedelta(days=7)
_JUDGED = frozenset({CellState.PASSED, CellState.KNOWN, CellState.FAILED, CellState.FLAKY})


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiverNews:
    """What is to be done about the list of known problems, a line each."""

    expiring: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    complaint: str = ""  # why no waiver holds, or why nothing can be said of them


@dataclass(frozen=True, kw_only=True, slots=True)
class Remarks:
    """What is to be said of a night as a whole, a line each."""

    notices: tuple[str, ...] = ()  # of what is not shown, or not known
    changed: tuple[str, ...] = ()  # what the index had changed by the end of the night
    waivers: WaiverNews = WaiverNews()

    def by_title(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """All but the notices, under a title each."""
        yield "The index changed meanwhile", self.changed
        yield "Known problems that expire soon", self.waivers.expiring
        yield "Known problems that match nothing", self.waivers.unmatched
        yield "Known problems", (self.waivers.complaint,) if self.waivers.complaint else ()


def review_waivers(
    store: Store, plan: NightPlan, tonight: Iterable[CellNight], *, whole: bool = True
) -> WaiverNews:
    """What the frozen list says, held against what the cells of the night accepted.

    Where these are not the ``whole`` night's, nobody can say which entries match nothing.
    """
    if plan.known_complaint or not plan.known_sha256:
        return WaiverNews(complaint=cut(one_line(plan.known_complaint)))
    name = frozen_name(plan.night, plan.known_sha256)
    try:
        with store.local(name) as path:
            waivers = load_known_list(path, "of the night").entries
    except (BinaryChecksError, OSError) as error:
        return WaiverNews(complaint=cut(f"The known problems cannot be read: {error}"))
    rows = [*tonight]
    today = date.fromisoformat(plan.night)
    unmatched, complaint = tuple[str, ...](), ""
    try:
        if whole:
            unmatched = tuple(_unmatched(store, plan, waivers, rows))
    except (BinaryChecksError, OSError) as error:  # gone by retention, or cut
        complaint = cut(f"Which known problems match nothing is not known: {error}")
    return WaiverNews(
        expiring=tuple(_expiring(waivers, today)), unmatched=unmatched, complaint=complaint
    )


def _expiring(waivers: Iterable[KnownProblem], today: date) -> Iterator[str]:
    dated = [(each.expires, each) for each in waivers if each.expires is not None]
    for expires, each in sorted(dated, key=lambda found: (found[0], found[1].listed)):
        if today <= expires <= today + _SOON:
            yield cut(one_line(f"{each.check} until {expires}: {each.reason}"))


def _unmatched(
    store: Store, plan: NightPlan, waivers: Iterable[KnownProblem], rows: list[CellNight]
) -> Iterator[str]:
    """Entries that accepted nothing, where every cell that they could speak of was judged."""
    if any(row.state not in _JUDGED for row in rows):
        return  # a cell that was not judged may need them
    accepted = [*_accepted(store, plan, rows)]
    today = date.fromisoformat(plan.night)
    for each in waivers:
        if not each.has_expired(today) and not any(
            check == each.check and each.covers(found.problem) and each.selects(file_name)
            for file_name, check, found in accepted
        ):
            yield cut(one_line(f"{each.check}: {each.reason}"))


def _accepted(
    store: Store, plan: NightPlan, rows: Iterable[CellNight]
) -> Iterator[tuple[str, str, Accepted]]:
    """File, check and problem of all that was accepted. Raises StoreError, ProfileError."""
    planned = {each.cell.id: each for each in plan.cells}
    attempts = NightAttempts(store, plan.night)
    for row in rows:
        if row.accepted and row.cell in planned:
            found = [*_accepted_in(attempts, planned[row.cell])]
            if len(found) < row.accepted:
                raise ProfileError(f"night {row.night}: {row.cell}: a result of it is gone")
            yield from found


def _accepted_in(
    attempts: NightAttempts, planned: PlannedCell
) -> Iterator[tuple[str, str, Accepted]]:
    """What the attempts accepted that decide, one of each stage."""
    cell = planned.cell.id
    for attempt in final_state(planned, attempts.read(cell)).last.values():
        name = result_name(attempt.night, cell, attempt.stage, attempt.number)
        run = decode_results({"checks": [], **(attempt.result or {})}, name)
        for package, entry in run.entries():
            for each in entry.accepted:
                yield package.file_name, entry.check, each
