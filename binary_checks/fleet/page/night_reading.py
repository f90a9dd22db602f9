"""What a page and a mail are made from: a store's history, its last plan, and what to note."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.nights.closing import ClosedNight, read_closed
from binary_checks.fleet.nights.night_dates import read_date
from binary_checks.fleet.page.history import History
from binary_checks.fleet.page.history_rows import ASKED, read_history
from binary_checks.fleet.page.leading_checks import find_leading
from binary_checks.fleet.page.remarks import Remarks, WaiverNews, review_waivers, rows_of
from binary_checks.fleet.plan import NightPlan
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.store_names import plan_name
from binary_checks.fleet.stored_nights import closed_nights, find_plan, list_nights
from binary_checks.fleet.tables.views import open_tables

_MORE = 60  # nights that are looked back on beyond those shown: for "since", and for news
_DAYS = range(1, 3661)


@dataclass(frozen=True, kw_only=True, slots=True)
class NightView:
    """A night as the store has it, and those before."""

    store: Store
    history: History
    plan: NightPlan | None
    remarks: Remarks


def read_night(url: str, *, nights: int = 1, project: str = "", date: str = "") -> NightView:
    """The last collected night of a store, or the one of that date, looking back on so many.

    Raises ProfileError for what is asked amiss, StoreError for a night that is not there.
    """
    store = open_store(url)
    closed = closed_nights(store)
    if date and read_date(date) not in closed:
        raise StoreError(f"{store.url}: {_explain(store, date)}")
    until = [night for night in closed if not date or night <= date]
    last = until[-nights - _MORE :] or None  # with none of them it says that there are none
    with open_tables(store, tables=ASKED, nights=last, project=project) as connection:
        history = read_history(connection)
    if not history.cells:
        raise ProfileError(f"--project {project!r:.80}: no cell of it in {store.url}")
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


def demand_number(text: str) -> int:
    """How many nights are to be shown. Raises ProfileError."""
    number = 0
    with suppress(ValueError):
        number = int(text)
    if number not in _DAYS:
        raise ProfileError(f"hud: --nights {text!r:.40}: not a number from 1 to {_DAYS[-1]}")
    return number


def _explain(store: Store, date: str) -> str:
    """Why there is nothing to be said of a night."""
    if date not in list_nights(store):
        return f"no night {date}"
    if store.read(plan_name(date)) is None:
        return f"night {date} has no plan"
    return f"night {date} is not collected yet: `binary-checks nightly collect --date {date}`"


def _add_open(history: History, store: Store, closed: tuple[str, ...]) -> History:
    """Name the nights that began after the last one that is over."""
    later = (night for night in list_nights(store) if night > history.last)
    return replace(history, open_nights=tuple(night for night in later if night not in closed))


def _try_closed(store: Store, night: str, notices: list[str]) -> ClosedNight:
    """How the night ended as a whole; where that cannot be read the notices say so."""
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
    """The plan of the night; where it cannot be read the notices say so."""
    try:
        plan = find_plan(store, night)
    except RecordError as error:
        notices.append(str(error))
        return None
    if plan is None:
        notices.append(f"{plan_name(night)} is gone: known problems and commands are not shown.")
    return plan
