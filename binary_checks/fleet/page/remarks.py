"""Remarks about a whole night: about its index and its known problems."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import chain

from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.known import (
    LONG,
    EndedNights,
    find_removable,
    key_of,
    read_waived_night,
    read_waived_nights,
)
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import read_frozen
from binary_checks.profile import KnownList, KnownProblem, read_known_list
from binary_checks.safe_text import cut, one_line

_SOON = timedelta(days=7)


EXPIRING = "Known problems that expire soon"
UNMATCHED = "Known problems without a match"
REMOVABLE = f"Known problems to remove: no match for {LONG} nights"
LIST = "Known problems"


def review_waivers(
    store: Store, plan: NightPlan, rows: EndedNights, *, whole: bool = True
) -> dict[str, list[str]]:
    """Find which of the plan's known problems cells accepted, in this night and earlier ones.

    The result maps titles to lines. Unmatched entries can be found only if ``rows`` contain the
    ``whole`` night.
    """
    if plan.known_complaint or not plan.known_sha256:
        return {LIST: [cut(one_line(plan.known_complaint))]} if plan.known_complaint else {}
    name = frozen_name(plan.night, plan.known_sha256)
    try:
        listed = read_known_list(read_frozen(store, name), "of the night")
    except (BinaryChecksError, OSError) as error:
        return {LIST: [cut(f"The known problems cannot be read: {error}")]}
    unmatched, removable, remarks = list[KnownProblem](), list[KnownProblem](), list[str]()
    try:
        if whole:
            tonight = read_waived_night(store, plan, rows[plan.night])
            unmatched = [each for each in listed.entries if tonight.matched(each) is False]
            before = {night: ended for night, ended in rows.items() if night < plan.night}
            nights = chain([tonight], read_waived_nights(store, before))
            removable = find_removable(unmatched, nights)
    except (BinaryChecksError, OSError) as error:  # deleted by retention, or truncated
        remarks.append(cut(f"It is unknown which known problems have no match: {error}"))
    if plan.known_remark:
        remarks.append(cut(one_line(f"{plan.known_source}: {plan.known_remark}")))
    gone = {*map(key_of, removable)}
    found = {
        EXPIRING: [*_expiring(listed, date.fromisoformat(plan.night))],
        UNMATCHED: [_name(each) for each in unmatched if key_of(each) not in gone],
        REMOVABLE: [_name(each) for each in removable],
        LIST: remarks,
    }
    return {title: lines for title, lines in found.items() if lines}


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
