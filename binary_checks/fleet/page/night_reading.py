"""Read the input of the site and the mail: history, plan and remarks of a store's nights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import chain

from binary_checks.errors import BinaryChecksError, ProfileError, RecordError, StoreError
from binary_checks.fleet.causes.naming_causes import find_leaders
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
    CellOfNight,
    WaivedNight,
    find_removable,
    key_of,
    read_before,
    read_waived_night,
)
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.nights import ClosedNight, read_closed
from binary_checks.fleet.page.history import ASKED, History, read_history
from binary_checks.fleet.store import Store, frozen_name, open_store, plan_name
from binary_checks.fleet.stored_nights import (
    NightAttempts,
    closed_nights,
    find_plan,
    list_nights,
    read_date,
    read_frozen,
)
from binary_checks.fleet.tables.views import open_tables
from binary_checks.model import CellState
from binary_checks.profile import KnownList, KnownProblem, read_known_list
from binary_checks.safe_text import cut, one_line

_MORE = 60  # earlier nights that are read, too, to find when trouble began and what is new
_MOST = 3660  # nights or commits that a site may show


@dataclass(frozen=True, kw_only=True, slots=True)
class NightView:
    """A night in the store, with the nights before."""

    store: Store
    history: History
    plan: NightPlan | None
    remarks: Remarks


def read_night(url: str, *, nights: int = 1, project: str = "", date: str = "") -> NightView:
    """Return the last collected night, or the night of a date, with earlier ones.

    ``nights`` nights are shown; more are read to find when trouble began. Raises ProfileError for
    an invalid request, and StoreError for a missing night.
    """
    store = open_store(url)
    closed = closed_nights(store)
    if date and read_date(date) not in closed:
        raise StoreError(f"{store.url}: {_explain(store, date)}")
    until = [night for night in closed if not date or night <= date]
    last = until[-nights - _MORE :] or None  # if the store has no night, open_tables reports that
    with open_tables(store, tables=ASKED, nights=last, project=project) as connection:
        history = read_history(connection)
    if not history.cells:
        raise ProfileError(f"--project {project!r:.80}: no cells of this project in {store.url}")
    history = _add_open(history.until(date) if date else history, store, closed)
    history = replace(history, leading=find_leading(store, history))
    notices = [
        f"The night of {night} is not collected yet, and not shown."
        for night in history.open_nights
    ]
    closed_night = _try_closed(store, history.last, notices)
    plan = _try_plan(store, history.last, notices)
    ended = rows_of(history)
    remarks = Remarks(
        notices=tuple(notices),
        changed=tuple(f"{each.cell}: {each.reason}" for each in closed_night.changed),
        waivers=review_waivers(store, plan, ended, whole=not project) if plan else WaiverNews(),
    )
    return NightView(store=store, history=history, plan=plan, remarks=remarks)


def require_number(text: str, option: str = "--nights", *, least: int = 1) -> int:
    """Return the number of nights or commits to show. Raises ProfileError."""
    number = -1
    with suppress(ValueError):
        number = int(text)
    if not least <= number <= _MOST:
        raise ProfileError(f"hud: {option} {text!r:.40}: not a number from {least} to {_MOST}")
    return number


def _explain(store: Store, date: str) -> str:
    """Return why a night cannot be shown."""
    if date not in list_nights(store):
        return f"no night {date}"
    if store.read(plan_name(date)) is None:
        return f"night {date} has no plan"
    return f"night {date} is not collected yet: `binary-checks nightly collect --date {date}`"


def _add_open(history: History, store: Store, closed: tuple[str, ...]) -> History:
    """Return the history with the nights that began after the last closed one."""
    later = (night for night in list_nights(store) if night > history.last)
    return replace(history, open_nights=tuple(night for night in later if night not in closed))


def _try_closed(store: Store, night: str, notices: list[str]) -> ClosedNight:
    """Return the night's mark; if the mark cannot be read, add a notice."""
    try:
        found = read_closed(store, night)
    except RecordError as error:
        notices.append(str(error))
        found = None
    if found is None:
        return ClosedNight(night=night, closed="")
    notices += found.complaints
    return found


def _try_plan(store: Store, night: str, notices: list[str]) -> NightPlan | None:
    """Return the night's plan, or None; if the plan cannot be read, add a notice."""
    try:
        plan = find_plan(store, night)
    except RecordError as error:
        notices.append(str(error))
        return None
    if plan is None:
        notices.append(f"{plan_name(night)} is missing: known problems and commands are not shown.")
    return plan


# Remarks about a whole night: its index and its known problems.

_SOON = timedelta(days=7)
Rows = Mapping[str, Iterable[CellOfNight]]
"""Night -> how its cells ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiverNews:
    """Advice about the list of known problems, a line each."""

    expiring: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()  # in the last night
    removable: tuple[str, ...] = ()  # unmatched for several nights
    remark: str = ""  # why a copy of the list was used
    complaint: str = ""  # why no waiver holds, or why nothing is known about waivers


@dataclass(frozen=True, kw_only=True, slots=True)
class Remarks:
    """Remarks about a night as a whole, a line each."""

    notices: tuple[str, ...] = ()  # about missing or unknown parts
    changed: tuple[str, ...] = ()  # changes of the indexes by the end of the night
    waivers: WaiverNews = WaiverNews()

    def by_title(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield title and lines, without the notices."""
        news = self.waivers
        yield "Changed in the index since planning", self.changed
        yield "Known problems that expire soon", news.expiring
        yield "Known problems without a match", news.unmatched
        yield f"Known problems to remove: no match for {LONG} nights", news.removable
        yield "Known problems", tuple(filter(None, (news.complaint, news.remark)))


def review_waivers(store: Store, plan: NightPlan, rows: Rows, *, whole: bool = True) -> WaiverNews:
    """Find which of the plan's known problems cells accepted, in this night and earlier ones.

    Unmatched entries can be found only if ``rows`` contain the ``whole`` night.
    """
    if plan.known_complaint or not plan.known_sha256:
        return WaiverNews(complaint=cut(one_line(plan.known_complaint)))
    name = frozen_name(plan.night, plan.known_sha256)
    try:
        listed = read_known_list(read_frozen(store, name), "of the night")
    except (BinaryChecksError, OSError) as error:
        return WaiverNews(complaint=cut(f"The known problems cannot be read: {error}"))
    unmatched, removable, complaint = list[KnownProblem](), list[KnownProblem](), ""
    try:
        tonight = read_waived_night(store, plan, rows[plan.night]) if whole else None
        if tonight is not None:
            unmatched = [each for each in listed.entries if tonight.matched(each) is False]
            removable = find_removable(unmatched, _look_back(store, tonight, rows))
    except (BinaryChecksError, OSError) as error:  # deleted by retention, or truncated
        complaint = cut(f"It is unknown which known problems have no match: {error}")
    gone = {*map(key_of, removable)}
    return WaiverNews(
        expiring=tuple(_expiring(listed, date.fromisoformat(plan.night))),
        unmatched=tuple(_name(each) for each in unmatched if key_of(each) not in gone),
        removable=tuple(map(_name, removable)),
        remark=cut(one_line(f"{plan.known_source}: {plan.known_remark}"))
        if plan.known_remark
        else "",
        complaint=complaint,
    )


def _look_back(store: Store, tonight: WaivedNight, rows: Rows) -> Iterator[WaivedNight | None]:
    """Yield the night and earlier nights, the latest first."""
    yield tonight
    before = sorted((night for night in rows if night < tonight.night), reverse=True)
    yield from read_before(store, {night: rows[night] for night in before[: LOOKED_AT - 1]})


def rows_of(history: History) -> Rows:
    """Return how the cells ended in the last nights of a history."""
    return {
        night: [rows[night] for rows in history.cells.values() if night in rows]
        for night in history.nights[-LOOKED_AT:]
    }


def _expiring(listed: KnownList, today: date) -> Iterator[str]:
    until = listed.valid_to()
    if until is not None and until.date() <= today + _SOON:
        yield f"the whole list is valid until {listed.valid_until}"
    dated = [(each.expires, each) for each in listed.entries if each.expires is not None]
    for expires, each in sorted(dated, key=lambda found: found[0]):
        if today <= expires <= today + _SOON:
            yield cut(one_line(f"{each.check} until {expires}: {each.reason}{_format_owner(each)}"))


def _name(entry: KnownProblem) -> str:
    return cut(one_line(f"{entry.check}: {entry.reason}{_format_owner(entry)}"))


def _format_owner(entry: KnownProblem) -> str:
    """Return the owner and the issue of an entry, as " (owner, issue)"."""
    owner = ", ".join(filter(None, (entry.owner, entry.issue)))
    return f" ({owner})" if owner else ""


# Leading checks: the failed checks to show if several report one fault.


def find_leading(store: Store, history: History) -> dict[str, frozenset[str]]:
    """Return cell -> leading checks, for cells that failed several checks in the last night.

    Cells whose results cannot be read are left out; all of their checks are shown.
    """
    found, attempts = {}, NightAttempts(store, history.last)
    for row in history.tonight():
        failed = history.failures.get((row.cell, row.night), ())
        if row.state is not CellState.FAILED or len({each.check for each in failed}) < 2:
            continue
        leaders = (find_leaders(each.result) for each in attempts.read(row.cell))
        if leading := frozenset(chain.from_iterable(leaders)):
            found[row.cell] = leading
    return found
