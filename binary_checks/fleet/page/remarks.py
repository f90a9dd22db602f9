"""Remarks about a whole night: about its index and its known problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
    WaivedNight,
    find_removable,
    key_of,
    read_before,
    read_waived_night,
)
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import read_frozen
from binary_checks.model import CellState
from binary_checks.profile import KnownList, KnownProblem, read_known_list
from binary_checks.safe_text import cut, one_line

_SOON = timedelta(days=7)


class EndedCell(NamedTuple):
    """How the night of a cell ended."""

    cell: str
    state: CellState
    accepted: int  # known problems


Rows = Mapping[str, Iterable[EndedCell]]
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
