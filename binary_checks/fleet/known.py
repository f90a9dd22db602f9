"""Known problems over several nights: find unused entries, check a list, and remove entries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain
from typing import NamedTuple

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.night import Cell, NightPlan, PlannedCell, final_state
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import NightAttempts, read_frozen, require_plan
from binary_checks.fleet.tables.views import Connection
from binary_checks.model import CellState, Problem
from binary_checks.profile import TABLE, KnownList, KnownProblem, line_of_table, read_known_list
from binary_checks.reports.known_list import REASON

LONG = 5
"""Number of nights without a match after which an entry should be removed."""
LOOKED_AT = 10
"""Number of nights that are read in order to find LONG conclusive ones."""
_ENDED = f"""
    SELECT night, cell, state, coalesce(accepted, 0) FROM cells
    WHERE night IN (SELECT DISTINCT night FROM cells ORDER BY night DESC LIMIT {LOOKED_AT})
"""  # noqa: S608 - our own number
_JUDGED = frozenset({CellState.PASSED, CellState.KNOWN, CellState.FAILED, CellState.FLAKY})
Key = tuple[str, str, tuple[str, ...] | None, str, str, str]


class EndedCell(NamedTuple):
    """How the night of a cell ended."""

    cell: str
    state: CellState
    accepted: int  # known problems


EndedNights = Mapping[str, Iterable[EndedCell]]
"""Night -> how its cells ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedProblem:
    """A problem that was accepted in a cell's attempt."""

    cell: Cell
    file_name: str
    problem: Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class WaivedNight:
    """A night's known-problems list, the accepted problems, and the cells not judged."""

    night: str
    listed: KnownList
    accepted: Mapping[tuple[str, tuple[str, ...] | None], Sequence[AcceptedProblem]]
    """Check and facts -> problems; check and None -> all problems of the check."""
    unjudged: Sequence[PlannedCell]

    def matched(self, entry: KnownProblem) -> bool | None:
        """Return whether the entry accepted a problem in this night, or None if that is unknown.

        It is unknown if the entry had expired, or if it may apply to a cell that was not judged.
        """
        for each in self.accepted.get((entry.check, entry.facts), ()):
            selected = entry.selects(each.file_name) and entry.holds_in(each.cell)
            if selected and entry.covers(each.problem):
                return True
        if entry.has_expired(date.fromisoformat(self.night)):
            return None
        return None if any(_may_concern(entry, each) for each in self.unjudged) else False


def _may_concern(entry: KnownProblem, planned: PlannedCell) -> bool:
    named = not planned.file_name or entry.selects(planned.file_name)
    return named and entry.holds_in(planned.cell)


def key_of(entry: KnownProblem) -> Key:
    """Return a key that identifies an entry across nights: its problems and its cells."""
    cells = entry.cells.written if entry.cells else ""
    return entry.check, entry.path, entry.facts, entry.match, entry.package, cells


def list_ended(connection: Connection) -> EndedNights:
    """Return the latest nights of the tables. Raises StoreError for an unknown state."""
    found: dict[str, list[EndedCell]] = {}
    for night, cell, state, accepted in connection.execute(_ENDED).fetchall():
        try:
            found.setdefault(str(night), []).append(EndedCell(cell, CellState(state), accepted))
        except ValueError:
            raise StoreError(f"night {night}: {cell}: state {state!r:.40} is unknown") from None
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


def read_waived_night(store: Store, plan: NightPlan, ended: Iterable[EndedCell]) -> WaivedNight:
    """Return the accepted problems of a night that had a list of known problems.

    Raises ProfileError, StoreError or OSError.
    """
    ends = {each.cell: each for each in ended}
    accepted: dict[tuple[str, tuple[str, ...] | None], list[AcceptedProblem]] = {}
    attempts = NightAttempts(store, plan.night)
    for planned in plan.cells:
        end = ends.get(planned.cell.id)
        if end is None or not end.accepted:
            continue
        found = [*_read_accepted(attempts, planned)]
        if len(found) < end.accepted:
            raise ProfileError(f"night {plan.night}: {end.cell}: one of its results is missing")
        for check, each in found:
            for facts in (each.problem.facts, None):
                accepted.setdefault((check, facts), []).append(each)
    name = frozen_name(plan.night, plan.known_sha256)
    judged = {each.cell for each in ends.values() if each.state in _JUDGED}
    return WaivedNight(
        night=plan.night,
        listed=read_known_list(read_frozen(store, name), "of the night"),
        accepted=accepted,
        unjudged=[each for each in plan.cells if each.cell.id not in judged],
    )


def _read_accepted(
    attempts: NightAttempts, planned: PlannedCell
) -> Iterator[tuple[str, AcceptedProblem]]:
    """Yield check and problem for all that the last attempt of each stage accepted."""
    cell = planned.cell
    for attempt in final_state(planned, attempts.read(cell.id)).last.values():
        for package, entry in attempt.result.entries() if attempt.result else ():
            for each in entry.accepted:
                found = AcceptedProblem(
                    cell=cell, file_name=package.file_name, problem=each.problem
                )
                yield entry.check, found


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
MOST_COMPARED = 2000
"""The most entries that are compared with each other."""
_STARS = re.compile(r"\**")
_PLACEHOLDER = re.compile(
    r"\W*(?:todo|fixme|xxx|tbd)\b.*|\W*(?:none|n/?a|unknown)?\W*", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LintRules:
    """The rules and the known ids by which a list is checked."""

    now: datetime
    checks: Iterable[str]  # ids
    cells: Sequence[Cell] | None = None  # of the matrix; None if no matrix was given
    most_days: int = MOST_DAYS


def lint_list(listed: KnownList, rules: LintRules) -> Iterator[tuple[int | None, str]]:
    """Yield the mistakes in a list, each with its entry's number, or None for the whole list."""
    if not listed.issued:
        yield None, "'issued' is missing: nobody would notice if an older list replaced this one"
    if not listed.valid_until:
        message = "a copy of the list cannot be used while its server is down"
        yield None, f"'valid_until' is missing: {message}"
    if fault := listed.find_fault(rules.now):
        yield None, fault
    ids = dict.fromkeys(rules.checks)
    for number, entry in enumerate(listed.entries):
        yield from ((number, fault) for fault in _lint_entry(entry, rules, ids))
    if len(listed.entries) > MOST_COMPARED:
        yield None, f"too many entries: only the first {MOST_COMPARED:,} were compared"
    yield from _find_shadowed(listed.entries[:MOST_COMPARED])


def _lint_entry(entry: KnownProblem, rules: LintRules, ids: Mapping[str, None]) -> Iterator[str]:
    if entry.check not in ids:
        close = get_close_matches(entry.check, ids, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        yield f"unknown check {entry.check[:80]!r}{hint}"
    for key in ("reason", "owner", "issue"):
        value = getattr(entry, key)
        if not value.strip():
            yield f"no {key}"
        elif _PLACEHOLDER.fullmatch(value) or value == REASON:
            yield f"{key} {value[:80]!r} is a placeholder: replace it"
    today = rules.now.date()
    if entry.expires is None:
        yield "no expires"
    elif entry.has_expired(today):
        yield f"it expired on {entry.expires}"
    elif entry.expires > today + timedelta(days=rules.most_days):
        days = (entry.expires - today).days
        allowed = f"at most {rules.most_days} are allowed"
        yield f"it expires in {days:,} days, on {entry.expires}; {allowed}"
    narrow = entry.match or entry.facts
    if _STARS.fullmatch(entry.path) and entry.path and not narrow:
        yield f"it accepts every problem of {entry.check}: give path, facts or match"
    if entry.cells and rules.cells is not None and not any(map(entry.cells.meets, rules.cells)):
        yield f"cells {entry.cells.written!r} matches no cell"


def _find_shadowed(entries: Sequence[KnownProblem]) -> Iterator[tuple[int, str]]:
    """Yield redundant entries: another entry accepts every problem that they accept.

    Of two equal entries, the later one is redundant.
    """
    likely: dict[tuple[str, str], list[int]] = {}  # by check and path, or "*" for any glob
    for number, entry in enumerate(entries):
        path = "*" if any(char in entry.path for char in "*?[") else entry.path
        likely.setdefault((entry.check, path), []).append(number)
    for number, entry in enumerate(entries):
        for other in chain.from_iterable(
            likely.get((entry.check, path), ()) for path in dict.fromkeys(("*", entry.path))
        ):
            if other == number or not _accepts_all_of(entries[other], entry):
                continue
            if not _accepts_all_of(entry, entries[other]):
                yield number, f"entry {other} accepts all problems of this entry: remove one"
                break
            if other < number:
                yield number, f"entry {other} accepts the same problems: remove one"
                break


def _accepts_all_of(wide: KnownProblem, narrow: KnownProblem) -> bool:
    """Return whether the wide entry accepts every problem that the narrow entry accepts."""
    return (
        wide.match in narrow.match
        and wide.facts in (None, narrow.facts)
        and _is_wider(wide.path, narrow.path)
        and _is_wider(wide.package, narrow.package)
        and (wide.expires or date.max) >= (narrow.expires or date.max)
        and _has_more_cells(wide, narrow)
    )


def _has_more_cells(wide: KnownProblem, narrow: KnownProblem) -> bool:
    if wide.cells is None:
        return True
    if narrow.cells is None:
        return False
    given = dict(narrow.cells.globs)
    return all(axis in given and _is_wider(glob, given[axis]) for axis, glob in wide.cells.globs)


def _is_wider(glob: str, other: str) -> bool:
    """Return whether the glob certainly matches every text that the other glob matches."""
    if glob in ("*", other):
        return True
    return "?" not in glob and "[" not in glob and fnmatchcase(other, glob)


# Removing entries from a list's text, without changing other lines.

_HEADER = re.compile(rf"[ \t]*\[\[[ \t]*{TABLE}[ \t]*\]\][ \t]*(?:#.*)?\r?\n?")
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
    if gone and not all(_HEADER.fullmatch(lines[header]) for header in headers):
        raise ProfileError(f"{where}: its entries do not begin with [[{TABLE}]]: edit it by hand")
    starts = [_find_start(lines, header) for header in headers]
    left = list[str]()
    at = 0
    for number in sorted(gone):
        left += lines[at : starts[number]]
        following = starts[number + 1] if number + 1 < len(starts) else len(lines)
        at = _find_end(lines, headers[number], following)
    left += lines[at:]
    edited = "".join(left).encode("utf-8")
    after = read_known_list(edited, where)
    same = (before.issued, before.valid_until) == (after.issued, after.valid_until)
    rest = [each for number, each in enumerate(before.entries) if number not in gone]
    if not same or rest != [*after.entries]:
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
