"""What is to be said of a night beside its cells: its index, and its known problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.known.waived_nights import (
    LONG,
    LOOKED_AT,
    CellOfNight,
    WaivedNight,
    find_removable,
    key_of,
    read_before,
    read_waived_night,
)
from binary_checks.fleet.page.history import History
from binary_checks.fleet.plan import NightPlan
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import frozen_name
from binary_checks.fleet.stored_nights import read_frozen
from binary_checks.lines import cut, one_line
from binary_checks.profile.known import KnownList, KnownProblem, read_known_list

_SOON = timedelta(days=7)
Rows = Mapping[str, Iterable[CellOfNight]]
"""How the cells ended, by night."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiverNews:
    """What is to be done about the list of known problems, a line each."""

    expiring: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()  # tonight
    removable: tuple[str, ...] = ()  # for some nights by now
    remark: str = ""  # why a copy of the list held
    complaint: str = ""  # why no waiver holds, or why nothing can be said of them


@dataclass(frozen=True, kw_only=True, slots=True)
class Remarks:
    """What is to be said of a night as a whole, a line each."""

    notices: tuple[str, ...] = ()  # of what is not shown, or not known
    changed: tuple[str, ...] = ()  # what the index had changed by the end of the night
    waivers: WaiverNews = WaiverNews()

    def by_title(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """All but the notices, under a title each."""
        news = self.waivers
        yield "The index changed meanwhile", self.changed
        yield "Known problems that expire soon", news.expiring
        yield "Known problems that match nothing", news.unmatched
        yield f"Known problems to remove: they matched nothing for {LONG} nights", news.removable
        yield "Known problems", tuple(filter(None, (news.complaint, news.remark)))


def review_waivers(store: Store, plan: NightPlan, rows: Rows, *, whole: bool = True) -> WaiverNews:
    """What the frozen list says, held against what the cells of the night and before accepted.

    Where these are not the ``whole`` night's, nobody can say which entries match nothing.
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
    except (BinaryChecksError, OSError) as error:  # gone by retention, or cut
        complaint = cut(f"Which known problems match nothing is not known: {error}")
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
    """That night, and those before, the latest first."""
    yield tonight
    before = sorted((night for night in rows if night < tonight.night), reverse=True)
    yield from read_before(store, {night: rows[night] for night in before[: LOOKED_AT - 1]})


def rows_of(history: History) -> Rows:
    """How the cells ended in the nights of a history."""
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
            yield cut(one_line(f"{each.check} until {expires}: {each.reason}{_look_after(each)}"))


def _name(entry: KnownProblem) -> str:
    return cut(one_line(f"{entry.check}: {entry.reason}{_look_after(entry)}"))


def _look_after(entry: KnownProblem) -> str:
    """Who looks after it, and where."""
    said = ", ".join(filter(None, (entry.owner, entry.issue)))
    return f" ({said})" if said else ""
