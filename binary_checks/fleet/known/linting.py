"""Says what is wrong with a list of known problems before it is published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fnmatch import translate
from functools import lru_cache

from binary_checks.fleet.night import Cell
from binary_checks.profile.known import KnownList, KnownProblem
from binary_checks.reports.known_list import REASON

MOST_DAYS = 92
"""Days until an entry expires, at most: three months."""
_MOST_PAIRS = 5_000_000  # of entries that are compared
_STARS = re.compile(r"\**")
_PLACEHOLDER = re.compile(
    r"\W*(?:todo|fixme|xxx|tbd)\b.*|\W*(?:none|n/?a|unknown)?\W*", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LintRules:
    """What a list is held against."""

    now: datetime
    checks: Iterable[str]  # ids
    cells: Sequence[Cell] | None = None  # of the matrix; None: none was given
    most_days: int = MOST_DAYS


def lint_list(listed: KnownList, rules: LintRules) -> Iterator[tuple[int | None, str]]:
    """The number of an entry, None for the list as a whole, and what is wrong with it."""
    yield from ((None, said) for said in _lint_head(listed, rules))
    ids = dict.fromkeys(rules.checks)
    for number, entry in enumerate(listed.entries):
        yield from ((number, said) for said in _lint_entry(entry, rules, ids))
    yield from _find_shadowed(listed.entries)


def _lint_head(listed: KnownList, rules: LintRules) -> Iterator[str]:
    if not listed.issued:
        yield "no issued: an older list in its place would not be noticed"
    if not listed.valid_until:
        yield "no valid_until: no copy of the list can replace a server that is down"
    if fault := listed.find_fault(rules.now):
        yield fault


def _lint_entry(entry: KnownProblem, rules: LintRules, ids: Mapping[str, None]) -> Iterator[str]:
    yield from _lint_check(entry.check, ids)
    for key in ("reason", "owner", "issue"):
        said = getattr(entry, key)
        if not said.strip():
            yield f"no {key}"
        elif _PLACEHOLDER.fullmatch(said) or said == REASON:
            yield f"{key} {said[:80]!r} is a placeholder: a person has to write it"
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
        yield f"it expires in {days:,} days, on {entry.expires}: {rules.most_days} at most"


def _find_shadowed(entries: Sequence[KnownProblem]) -> Iterator[tuple[int | None, str]]:
    """Entries that accept nothing which another one does not accept as long and in the same cells.

    Of two that are the same, the later one is named.
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
                f"too many entries: overlaps were looked for only before entry {number:,}",
            )
            return
        found = next((each for each in likely if _shadows(entries, each, number)), None)
        if found is not None:
            same = _covers(entry, entries[found])
            said = "says the same" if same else "accepts all that it does"
            yield number, f"entry {found} {said}: remove one"


def _shadows(entries: Sequence[KnownProblem], one: int, other: int) -> bool:
    if one == other or not _covers(entries[one], entries[other]):
        return False
    return one < other or not _covers(entries[other], entries[one])


def _covers(wide: KnownProblem, narrow: KnownProblem) -> bool:
    """Whether the first accepts all that the second does."""
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
    """Whether the glob surely matches all that the other one does."""
    if glob in ("*", other):
        return True
    return "?" not in glob and "[" not in glob and _compile(glob).match(other) is not None


@lru_cache(maxsize=1 << 16)  # that of fnmatch has 256
def _compile(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def _has_glob(path: str) -> bool:
    return any(char in path for char in "*?[")
