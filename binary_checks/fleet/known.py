"""Known problems over several nights: find unused entries; propose, check, remove entries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fnmatch import translate
from functools import lru_cache
from itertools import takewhile
from typing import Protocol

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.night import AXES, Cell, CellEnd, NightPlan, PlannedCell, final_state
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import NightAttempts, read_frozen, require_plan
from binary_checks.model import CellState, Problem
from binary_checks.profile import (
    TABLE,
    CellCondition,
    KnownList,
    KnownProblem,
    escape_glob,
    is_follow_up,
    read_condition,
    read_known_list,
)
from binary_checks.reports.known_list import REASON

LONG = 5
"""Number of nights without a match after which an entry should be removed."""
LOOKED_AT = 10
"""Number of nights that are read in order to find LONG conclusive ones."""
_JUDGED = frozenset({CellState.PASSED, CellState.KNOWN, CellState.FAILED, CellState.FLAKY})
Key = tuple[str, str, tuple[str, ...] | None, str, str, str]


class CellOfNight(Protocol):
    """A row of the table of cells: how one cell's night ended."""

    @property
    def cell(self) -> str:
        """The cell's id."""

    @property
    def state(self) -> CellState:
        """The cell's state."""

    @property
    def accepted(self) -> int:
        """The number of accepted problems."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedProblem:
    """A problem that was accepted in a cell's attempt."""

    planned: PlannedCell
    file_name: str
    check: str
    problem: Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class WaivedNight:
    """A night's known-problems list, the accepted problems, and the cells not judged."""

    night: str
    listed: KnownList
    accepted: Mapping[
        str, Mapping[tuple[str, ...], Sequence[AcceptedProblem]]
    ]  # check -> facts -> problems
    unjudged: Sequence[PlannedCell]

    def matched(self, entry: KnownProblem) -> bool | None:
        """Return whether the entry accepted a problem in this night, or None if that is unknown.

        It is unknown if the entry had expired, or if it may apply to a cell that was not judged.
        """
        of_check = self.accepted.get(entry.check, {})
        for facts in of_check if entry.facts is None else (entry.facts,):
            if any(_accepts(entry, each) for each in of_check.get(facts, ())):
                return True
        if entry.has_expired(date.fromisoformat(self.night)):
            return None
        return None if any(_may_concern(entry, each) for each in self.unjudged) else False


def key_of(entry: KnownProblem) -> Key:
    """Return a key that identifies an entry across nights: its problems and its cells."""
    cells = entry.cells.written if entry.cells else ""
    return entry.check, entry.path, entry.facts, entry.match, entry.package, cells


def _accepts(entry: KnownProblem, found: AcceptedProblem) -> bool:
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
    """Return a night's accepted problems, or None if the night had no list of known problems."""
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
                raise ProfileError(f"night {plan.night}: {row.cell}: one of its results is missing")
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
    """Yield the problems that were accepted in the last attempt of each stage."""
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
    """Yield the accepted problems of each night, the latest first; None for unreadable nights."""
    for night in sorted(rows, reverse=True):
        try:
            yield read_waived_night(store, require_plan(store, night), rows[night])
        except (ProfileError, StoreError, OSError):  # deleted by retention, or truncated
            yield None


def find_removable(
    entries: Iterable[KnownProblem], nights: Iterable[WaivedNight | None]
) -> list[KnownProblem]:
    """Return the entries without a match in the latest five conclusive nights.

    ``nights`` begins with the latest.
    """
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


# Proposing entries: one for each problem of a night, limited to the cells that have it.

PLACEHOLDER = "TODO"
"""Text in fields that a person must fill in."""
_PROJECT = re.compile(r"(.+?)-(?=\d)")
_OF_ONE_CELL = (
    (re.compile(r"\.cpython-\d+t?-[\w.-]+?(?=\.(?:so|dylib)$)"), ".cpython-*"),
    (re.compile(r"\.cp\d+t?-[\w.-]+?(?=\.pyd$)"), ".cp*"),
    (re.compile(r"(?<=/python)3\.\d+t?(?=/)"), "3.*"),
    (re.compile(r"-[0-9a-f]{8}(?=\.(?:so|dll|dylib|\d))"), "-????????"),
    (re.compile(r"-\d[^/-]*(?=\.(?:dist-info|data)/)"), "-*"),
)
"""Parts of paths that differ between Pythons, systems or builds, and globs for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedProblem:
    """A problem in one cell that no entry accepts."""

    cell: Cell
    file_name: str
    check: str
    problem: Problem


def list_failed(planned: PlannedCell, end: CellEnd) -> Iterator[FailedProblem]:
    """Yield a cell's problems that an entry could accept."""
    for attempt in end.last.values():
        for package, entry in attempt.result.entries() if attempt.result else ():
            for problem in () if entry.reason else entry.problems:
                if not is_follow_up(problem):
                    yield FailedProblem(
                        cell=planned.cell,
                        file_name=package.file_name,
                        check=entry.check,
                        problem=problem,
                    )


def propose(
    found: Iterable[FailedProblem],
    planned: Sequence[Cell],
    *,
    owner: str,
    issue: str,
    expires: date,
) -> Iterator[tuple[KnownProblem, str]]:
    """Yield entries that accept these problems, in the cells that have them and in no others.

    Each entry comes with the sentence of the first problem that it accepts.
    """
    groups: dict[tuple[str, str, str, tuple[str, ...]], dict[str, Cell]] = {}
    sentences: dict[tuple[str, str, str, tuple[str, ...]], str] = {}
    for each in found:
        path = _generalise(each.problem.path)
        key = each.check, _match_project(each.file_name), path, each.problem.facts
        groups.setdefault(key, {})[each.cell.id] = each.cell
        sentences.setdefault(key, each.problem.sentence)
    for key, cells in sorted(groups.items()):
        check, package, path, facts = key
        for condition in narrow([*cells.values()], planned):
            entry = KnownProblem(
                check=check,
                path=path,
                facts=facts,
                package=package,
                reason=f"{PLACEHOLDER}: why it is accepted",
                owner=owner or PLACEHOLDER,
                issue=issue or PLACEHOLDER,
                cells=condition,
                expires=expires,
            )
            yield entry, sentences[key]


def _generalise(path: str) -> str:
    """Return a glob that matches the path in all cells, whatever their Python, system or build."""
    glob = escape_glob(path)
    for pattern, instead in _OF_ONE_CELL:
        glob = pattern.sub(instead, glob)
    return glob


def _match_project(file_name: str) -> str:
    """Return a glob for the package's files of any version."""
    found = _PROJECT.match(file_name)
    return f"{escape_glob(found[1])}-*" if found else escape_glob(file_name)


def narrow(meant: Sequence[Cell], planned: Sequence[Cell]) -> Iterator[CellCondition | None]:
    """Yield conditions that match the given cells, and no other planned cell of their projects.

    Yield None if there are no other cells.
    """
    ids, projects = {cell.id for cell in meant}, {cell.project for cell in meant}
    others = [each for each in planned if each.project in projects and each.id not in ids]
    if others:
        yield from _narrow(meant, others)
    else:
        yield None


def _narrow(meant: Sequence[Cell], others: Sequence[Cell]) -> Iterator[CellCondition]:
    words = [word for axis in AXES if (word := _separate(axis, meant, others))]
    if words and not any(map(read_condition(" ".join(words), "cells").meets, others)):
        yield _shorten(words, others)
        return
    axis = next((axis for axis in AXES if len({getattr(cell, axis) for cell in meant}) > 1), "")
    if not axis:  # only ids distinguish these cells from the others
        yield from (read_condition(f"id={escape_glob(cell.id)}", "cells") for cell in meant)
        return
    for value in dict.fromkeys(getattr(cell, axis) for cell in meant):
        yield from _narrow([cell for cell in meant if getattr(cell, axis) == value], others)


def _separate(axis: str, meant: Sequence[Cell], others: Sequence[Cell]) -> str:
    """Return an AXIS=GLOB that matches all of ``meant`` but not all of ``others``, or ""."""
    values = {getattr(cell, axis) for cell in meant}
    elsewhere = {getattr(cell, axis) for cell in others}
    if "" in values or elsewhere <= values:
        return ""
    if len(values) == 1:
        return f"{axis}={escape_glob(values.pop())}"
    start = _find_common_start(sorted(values))
    met = {value for value in elsewhere - values if value.startswith(start)}
    if not start or met == elsewhere - values:
        return ""
    shorter = start.rstrip("0123456789.")  # cu* rather than cu1*
    as_well = met == {value for value in elsewhere - values if value.startswith(shorter)}
    return f"{axis}={escape_glob(shorter if shorter and as_well else start)}*"


def _find_common_start(values: Sequence[str]) -> str:
    """Return the common beginning of sorted values."""
    pairs = zip(values[0], values[-1], strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shorten(words: list[str], others: Sequence[Cell]) -> CellCondition:
    """Return the condition without clauses that the remaining clauses make redundant."""
    kept = list(words)
    for word in words:
        left = [each for each in kept if each != word]
        if left and not any(map(read_condition(" ".join(left), "cells").meets, others)):
            kept = left
    return read_condition(" ".join(kept), "cells")


# Checking a list before it is published.

MOST_DAYS = 92
"""The most days until an entry expires: three months."""
_MOST_PAIRS = 5_000_000  # pairs of entries to compare
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
    yield from ((None, fault) for fault in _lint_head(listed, rules))
    ids = dict.fromkeys(rules.checks)
    for number, entry in enumerate(listed.entries):
        yield from ((number, fault) for fault in _lint_entry(entry, rules, ids))
    yield from _find_shadowed(listed.entries)


def _lint_head(listed: KnownList, rules: LintRules) -> Iterator[str]:
    if not listed.issued:
        yield "'issued' is missing: nobody would notice if an older list replaced this one"
    if not listed.valid_until:
        yield "'valid_until' is missing: a copy of the list cannot be used while its server is down"
    if fault := listed.find_fault(rules.now):
        yield fault


def _lint_entry(entry: KnownProblem, rules: LintRules, ids: Mapping[str, None]) -> Iterator[str]:
    yield from _lint_check(entry.check, ids)
    for key in ("reason", "owner", "issue"):
        value = getattr(entry, key)
        if not value.strip():
            yield f"no {key}"
        elif _PLACEHOLDER.fullmatch(value) or value == REASON:
            yield f"{key} {value[:80]!r} is a placeholder: replace it"
    yield from _lint_expiry(entry, rules)
    narrow = entry.match or entry.facts
    if _STARS.fullmatch(entry.path) and entry.path and not narrow:
        yield f"it accepts every problem of {entry.check}: give path, facts or match"
    if entry.cells and rules.cells is not None and not any(map(entry.cells.meets, rules.cells)):
        yield f"cells {entry.cells.written!r} matches no cell"


def _lint_check(check: str, ids: Mapping[str, None]) -> Iterator[str]:
    if check not in ids:
        close = get_close_matches(check, ids, n=1)
        yield f"unknown check {check[:80]!r}{f'; did you mean {close[0]!r}?' if close else ''}"


def _lint_expiry(entry: KnownProblem, rules: LintRules) -> Iterator[str]:
    today = rules.now.date()
    if entry.expires is None:
        yield "no expires"
    elif entry.has_expired(today):
        yield f"it expired on {entry.expires}"
    elif entry.expires > today + timedelta(days=rules.most_days):
        days = (entry.expires - today).days
        allowed = f"at most {rules.most_days} are allowed"
        yield f"it expires in {days:,} days, on {entry.expires}; {allowed}"


def _find_shadowed(entries: Sequence[KnownProblem]) -> Iterator[tuple[int | None, str]]:
    """Yield redundant entries: another entry accepts every problem that they accept.

    Of two equal entries, the later one is redundant.
    """
    wide: dict[str, list[int]] = {}
    exact: dict[tuple[str, str, tuple[str, ...] | None], list[int]] = {}
    for number, entry in enumerate(entries):
        if _has_glob(entry.path):
            wide.setdefault(entry.check, []).append(number)
        else:
            exact.setdefault((entry.check, entry.path, entry.facts), []).append(number)
    left = _MOST_PAIRS
    for number, entry in enumerate(entries):
        likely = [*wide.get(entry.check, ())]
        for facts in dict.fromkeys((entry.facts, None)):
            likely += exact.get((entry.check, entry.path, facts), ())
        left -= len(likely)
        if left < 0:
            yield (
                None,
                f"too many entries: only those before entry {number:,} were compared",
            )
            return
        found = next((each for each in likely if _shadows(entries, each, number)), None)
        if found is not None:
            same = _accepts_all_of(entry, entries[found])
            message = "accepts the same problems" if same else "accepts all problems of this entry"
            yield number, f"entry {found} {message}: remove one"


def _shadows(entries: Sequence[KnownProblem], one: int, other: int) -> bool:
    if one == other or not _accepts_all_of(entries[one], entries[other]):
        return False
    return one < other or not _accepts_all_of(entries[other], entries[one])


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
    return "?" not in glob and "[" not in glob and _compile(glob).match(other) is not None


@lru_cache(maxsize=1 << 16)  # fnmatch caches only 256 patterns
def _compile(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def _has_glob(path: str) -> bool:
    return any(char in path for char in "*?[")


# Removing entries from a list's text, without changing other lines.

_HEADER = re.compile(rf"[ \t]*\[\[[ \t]*{TABLE}[ \t]*\]\][ \t]*(?:#.*)?\r?\n?")
# TOML ends lines only with LF; str.splitlines knows nine ends
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_QUOTED = re.compile(
    r"""(?P<lines>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5})"""
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*""",
    re.DOTALL,
)
"""Matches strings and comments; a string of several lines may contain anything."""


def find_headers(text: str, count: int) -> list[int]:
    """Return the line numbers, from 0, of the entries' headers; [] if an entry has no header."""
    bare = _QUOTED.sub(_blank, text)
    lines = _LINE.findall(bare)
    found = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line)]
    return found if len(found) == count else []


def _blank(found: re.Match[str]) -> str:
    """Return only the line ends of a multi-line string; return any other match unchanged."""
    return "\n" * found[0].count("\n") if found["lines"] else found[0]


def remove_entries(content: bytes, gone: Collection[int], where: str) -> bytes:
    """Return the list without the entries with these numbers, and without their comments.

    A comment belongs to an entry if no empty line separates them. Raises ProfileError if the lines
    of an entry cannot be determined.
    """
    before = read_known_list(content, where)
    lines = _LINE.findall(content.decode("utf-8"))
    headers = find_headers(content.decode("utf-8"), len(before.entries))
    if gone and not headers:
        raise ProfileError(f"{where}: its entries do not begin with [[{TABLE}]]: edit it by hand")
    left = list[str]()
    at = 0
    for number in sorted(gone):
        start, end = _find_range(lines, headers, number)
        left += lines[at:start]
        at = end
    left += lines[at:]
    edited = "".join(left).encode("utf-8")
    _require_rest(before, read_known_list(edited, where), gone, where)
    return edited


def _find_range(lines: Sequence[str], headers: Sequence[int], number: int) -> tuple[int, int]:
    """Return the first line of an entry, and the line after the empty lines that follow it."""
    start = _find_start(lines, headers[number])
    following = headers[number + 1] if number + 1 < len(headers) else len(lines)
    stop = _find_start(lines, following) if following < len(lines) else following
    end = stop
    while end > headers[number] and _is_aside(lines[end - 1]):
        end -= 1  # up to the entry's last key
    while end < stop and lines[end].lstrip().startswith("#"):
        end += 1  # comments directly below it
    while end < stop and not lines[end].strip():
        end += 1
    return start, end


def _find_start(lines: Sequence[str], header: int) -> int:
    while header and lines[header - 1].lstrip().startswith("#"):
        header -= 1
    return header


def _is_aside(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _require_rest(before: KnownList, after: KnownList, gone: Collection[int], where: str) -> None:
    """Raise ProfileError unless all other entries are unchanged.

    A line within a string may look like the header of an entry.
    """
    rest = [each for number, each in enumerate(before.entries) if number not in gone]
    same = (before.issued, before.valid_until) == (after.issued, after.valid_until)
    if not same or rest != [*after.entries]:
        raise ProfileError(
            f"{where}: the lines of its entries cannot be determined: edit it by hand"
        )
