"""Known problems over several nights: find unused entries, check a list, and remove entries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.night import Cell, NightPlan, PlannedCell, final_state
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import NightAttempts, read_frozen, require_plan
from binary_checks.fleet.tables.views import Connection
from binary_checks.model import Problem
from binary_checks.profile import (
    TABLE,
    KnownList,
    KnownProblem,
    hint,
    line_of_table,
    locate,
    read_known_list,
)
from binary_checks.reports.known_list import REASON

LONG = 5
"""Number of nights without a match after which an entry should be removed."""
LOOKED_AT = 10
"""Number of nights that are read in order to find LONG conclusive ones."""
_ENDED = f"""
    SELECT night, cell, coalesce(accepted, 0), state IN ('passed', 'known', 'failed', 'flaky')
    FROM cells
    WHERE night IN (SELECT DISTINCT night FROM cells ORDER BY night DESC LIMIT {LOOKED_AT})
"""  # noqa: S608 - our own number
EndedNights = Mapping[str, Mapping[str, tuple[int, bool]]]
"""Night -> cell -> the number of accepted problems, and whether the cell was judged."""
Found = tuple[Cell, str, Problem]
"""A cell, the file name of its package, and an accepted problem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaivedNight:
    """A night's known-problems list, the accepted problems, and the cells not judged."""

    night: str
    listed: KnownList
    accepted: Mapping[tuple[str, tuple[str, ...] | None], Sequence[Found]]
    """Check and facts -> problems; check and None -> all problems of the check."""
    unjudged: Sequence[PlannedCell]

    def matched(self, entry: KnownProblem) -> bool | None:
        """Return whether the entry accepted a problem in this night, or None if that is unknown.

        It is unknown if the entry had expired, or if it may apply to a cell that was not judged.
        """
        for cell, file_name, problem in self.accepted.get((entry.check, entry.facts), ()):
            if entry.selects(file_name) and entry.holds_in(cell) and entry.covers(problem):
                return True
        unjudged = (each for each in self.unjudged if entry.holds_in(each.cell))
        is_unknown = entry.has_expired(date.fromisoformat(self.night)) or any(
            not each.file_name or entry.selects(each.file_name) for each in unjudged
        )
        return None if is_unknown else False


def key_of(entry: KnownProblem) -> KnownProblem:
    """Return what identifies an entry across nights: its problems and its cells."""
    return replace(entry, reason="", owner="", issue="", expires=None)


def list_ended(connection: Connection) -> EndedNights:
    """Return how the cells of the latest nights ended."""
    found: dict[str, dict[str, tuple[int, bool]]] = {}
    for night, cell, accepted, is_judged in connection.execute(_ENDED).fetchall():
        found.setdefault(str(night), {})[cell] = (accepted, is_judged)
    return found


def read_waived_nights(store: Store, ended: EndedNights) -> Iterator[WaivedNight]:
    """Yield these closed nights, the latest first, without those that had no list.

    Nights that cannot be read are left out: retention may have deleted their results.
    """
    for night in sorted(ended, reverse=True):
        with suppress(ProfileError, StoreError, OSError):
            plan = require_plan(store, night)
            if plan.known_sha256 and not plan.known_complaint:
                yield read_waived_night(store, plan, ended[night])


def read_waived_night(
    store: Store, plan: NightPlan, ended: Mapping[str, tuple[int, bool]]
) -> WaivedNight:
    """Return the accepted problems of a night that had a list of known problems.

    Raises ProfileError, StoreError or OSError.
    """
    accepted: dict[tuple[str, tuple[str, ...] | None], list[Found]] = {}
    unjudged = []
    attempts = NightAttempts(store, plan.night)
    for planned in plan.cells:
        number, is_judged = ended.get(planned.cell.id, (0, False))
        found = [*_read_accepted(attempts, planned)] if number else []
        if len(found) < number:
            cell = planned.cell.id
            raise ProfileError(f"night {plan.night}: {cell}: one of its results is missing")
        for check, file_name, problem in found:
            for facts in (problem.facts, None):
                accepted.setdefault((check, facts), []).append((planned.cell, file_name, problem))
        if not is_judged:
            unjudged.append(planned)
    name = frozen_name(plan.night, plan.known_sha256)
    return WaivedNight(
        night=plan.night,
        listed=read_known_list(read_frozen(store, name), "of the night"),
        accepted=accepted,
        unjudged=unjudged,
    )


def _read_accepted(
    attempts: NightAttempts, planned: PlannedCell
) -> Iterator[tuple[str, str, Problem]]:
    """Yield check, file name and problem for all that the last attempt of each stage accepted."""
    for attempt in final_state(planned, attempts.read(planned.cell.id)).last.values():
        for package, entry in attempt.result.entries() if attempt.result else ():
            for each in entry.accepted:
                yield entry.check, package.file_name, each.problem


def find_removable(
    entries: Iterable[KnownProblem], nights: Iterable[WaivedNight]
) -> list[KnownProblem]:
    """Return the entries without a match in the latest five conclusive nights.

    ``nights`` begins with the latest.
    """
    left = {key_of(each): each for each in entries}
    counted = dict.fromkeys(left, 0)
    for night in nights:
        in_force = {key_of(each) for each in night.listed.entries}
        for key in [key for key in counted if counted[key] < LONG]:
            matched = night.matched(left[key])
            if matched or key not in in_force:
                del counted[key]
            else:
                counted[key] += matched is False
        if all(count == LONG for count in counted.values()):
            break
    return [left[key] for key, count in counted.items() if count == LONG]


# Checking a list before it is published.

MOST_DAYS = 92
"""The most days until an entry expires: three months."""
_PLACEHOLDER = re.compile(
    r"\W*(?:todo|fixme|xxx|tbd)\b.*|\W*(?:none|n/?a|unknown)?\W*", re.IGNORECASE | re.DOTALL
)


def lint_list(
    listed: KnownList,
    name: str,
    checks: Collection[str],
    cells: Sequence[Cell] | None,
    now: datetime,
) -> Iterator[str]:
    """Yield the mistakes in a list of that name, each with its place.

    ``checks`` are the known ids; ``cells`` are those of a matrix, or None.
    """
    if not listed.issued:
        message = "nobody would notice if an older list replaced this one"
        yield f"{name}: 'issued' is missing: {message}"
    if not listed.valid_until:
        message = "a copy of the list cannot be used while its server is down"
        yield f"{name}: 'valid_until' is missing: {message}"
    if fault := listed.find_fault(now):
        yield f"{name}: {fault}"
    first: dict[KnownProblem, int] = {}
    for number, entry in enumerate(listed.entries):
        place = locate(entry.listed, entry.check)
        if entry.check not in checks:
            yield f"{place}: unknown check {entry.check[:80]!r}{hint(entry.check, checks)}"
        for fault in _lint_entry(entry, now.date()):
            yield f"{place}: {fault}"
        if entry.cells and cells is not None and not any(map(entry.cells.meets, cells)):
            yield f"{place}: cells {entry.cells.written!r} matches no cell"
        other = first.setdefault(key_of(entry), number)
        if other != number:
            yield f"{place}: entry {other} accepts the same problems: remove one"


def _lint_entry(entry: KnownProblem, today: date) -> Iterator[str]:
    for key in ("reason", "owner", "issue"):
        value = getattr(entry, key)
        if not value.strip():
            yield f"no {key}"
        elif _PLACEHOLDER.fullmatch(value) or value == REASON:
            yield f"{key} {value[:80]!r} is a placeholder: replace it"
    if entry.expires is None:
        yield "no expires"
    elif entry.has_expired(today):
        yield f"it expired on {entry.expires}"
    elif entry.expires > today + timedelta(days=MOST_DAYS):
        days = (entry.expires - today).days
        yield f"it expires in {days:,} days, on {entry.expires}; at most {MOST_DAYS} are allowed"
    if {*entry.path} == {"*"} and not entry.match and not entry.facts:
        yield f"it accepts every problem of {entry.check}: give path, facts or match"


# Removing entries from a list's text, without changing other lines.

# TOML ends lines only with LF; str.splitlines knows nine ends
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def remove_entries(content: bytes, gone: Collection[int], where: str) -> bytes:
    """Return the list without the entries with these numbers, and without their comments.

    A comment belongs to an entry if no empty line separates them. Raises ProfileError if the lines
    of an entry cannot be determined.
    """
    before = read_known_list(content, where)
    lines = _LINE.findall(content.decode("utf-8"))
    headers = [line_of_table(each.check) - 1 for each in before.entries]
    if gone and not all(lines[header].lstrip().startswith("[[") for header in headers):
        raise ProfileError(f"{where}: its entries do not begin with [[{TABLE}]]: edit it by hand")
    starts = [*(_find_start(lines, header) for header in headers), len(lines)]
    for number in sorted(gone, reverse=True):
        del lines[starts[number] : _find_end(lines, headers[number], starts[number + 1])]
    edited = "".join(lines).encode("utf-8")
    rest = [each for number, each in enumerate(before.entries) if number not in gone]
    if read_known_list(edited, where) != replace(before, entries=tuple(rest)):
        raise ProfileError(
            f"{where}: the lines of its entries cannot be determined: edit it by hand"
        )
    return edited


def _find_start(lines: Sequence[str], header: int) -> int:
    while header and lines[header - 1].lstrip().startswith("#"):
        header -= 1
    return header


def _find_end(lines: Sequence[str], header: int, following: int) -> int:
    """Return the line after an entry, its comments, and the empty lines below them."""
    end = following
    while end > header and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1  # up to the entry's last key
    while end < following and lines[end].lstrip().startswith("#"):
        end += 1  # comments directly below it
    while end < following and not lines[end].strip():
        end += 1
    return end
