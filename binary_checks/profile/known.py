"""Problems that a project has accepted, and for how long: read, matched, and followed up."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.model import Accepted, Level, Problem
from binary_checks.profile.cell_conditions import CellAxes, CellCondition, read_condition
from binary_checks.profile.toml_values import convert, reject_unknown

TABLE = "known_problems"
LIST = "known problems "
"""How messages about a list begin, before its name."""
FOLLOW_UP = "known problem "
"""How the cause of a problem begins that speaks of an entry rather than of the package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProblem:
    """A waiver: problems of one check that the project has accepted, and why."""

    check: str  # check id
    reason: str
    path: str = "*"  # glob on the problem's path
    match: str = ""  # text in the problem's sentence
    package: str = "*"  # glob on the package's file name
    expires: date | None = None  # the last day on which it accepts anything
    owner: str = ""  # who looks after it
    issue: str = ""  # where it is being worked on
    cells: CellCondition | None = None  # where it holds; None: everywhere
    listed: str = field(default="", compare=False)  # where it stands: "own.toml: known_problems[0]"
    is_shared: bool = field(default=False, compare=False)  # among runs that need not all match it

    @property
    def in_profile(self) -> bool:
        """Whether it stands in the profile rather than in a list that was named."""
        return not self.listed.startswith(LIST)

    def selects(self, package_file_name: str) -> bool:
        """Whether it speaks of that package."""
        return fnmatchcase(package_file_name, self.package)

    def holds_in(self, cell: CellAxes | None) -> bool:
        """Whether it holds in that cell; None: in a run that does not say which cell it is."""
        return self.cells is None or (cell is not None and self.cells.meets(cell))

    def covers(self, problem: Problem) -> bool:
        """Whether it speaks of that problem, whatever day it is."""
        return self.match in problem.sentence and fnmatchcase(problem.path, self.path)

    def has_expired(self, today: date) -> bool:
        """Whether it accepts nothing any more."""
        return self.expires is not None and today > self.expires


def read_known_problems(
    rows: Iterable[object], where: str, *, shared: bool = False
) -> tuple[KnownProblem, ...]:
    """The entries of an array of tables. Raises ProfileError, which says where."""
    kinds = {**typing.get_type_hints(KnownProblem), "cells": str}
    for of_ours in ("listed", "is_shared"):
        del kinds[of_ours]
    return tuple(
        _read_entry(row, kinds, f"{where}: {TABLE}[{index}]", shared=shared)
        for index, row in enumerate(rows)
    )


def _read_entry(row: object, kinds: dict[str, Any], where: str, *, shared: bool) -> KnownProblem:
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table")
    reject_unknown(row, kinds, where, "key")
    for required in ("check", "reason"):
        if not row.get(required):
            raise ProfileError(f"{where}: {required!r} is missing")
    values = {key: convert(value, kinds[key], f"{where}: {key}") for key, value in row.items()}
    if "cells" in values:
        values["cells"] = read_condition(values["cells"], f"{where}: cells")
    return KnownProblem(**values, listed=where, is_shared=shared)


def accept(
    problems: Iterable[Problem], waivers: Iterable[KnownProblem], today: date
) -> Iterator[Accepted]:
    """Those of the problems, in order, that an entry accepts today, with its reason."""
    current = [each for each in waivers if not each.has_expired(today)]
    by_match: dict[str, list[KnownProblem]] = {}  # a written list has an entry for each problem
    for each in current:
        by_match.setdefault(each.match, []).append(each)
    for problem in sorted(problems):
        likely = chain(by_match.get(problem.sentence, ()), current)
        waiver = next((each for each in likely if each.covers(problem)), None)
        if waiver is not None:
            expires = "" if waiver.expires is None else waiver.expires.isoformat()
            yield Accepted(problem=problem, reason=waiver.reason, expires=expires)


def is_follow_up(problem: Problem) -> bool:
    """Whether it speaks of an entry, so that what mends a package does not mend it."""
    return problem.cause.startswith(FOLLOW_UP)


def find_stale(waivers: Iterable[KnownProblem], found: Collection[Problem]) -> Iterator[Problem]:
    """A problem for each entry that covers nothing, whether it has expired or not.

    Not for one that other runs share: what matches nothing here may match in another cell.
    """
    by_sentence: dict[str, list[Problem]] = {}
    for problem in found:
        by_sentence.setdefault(problem.sentence, []).append(problem)
    for waiver in waivers:
        if waiver.is_shared:
            continue
        likely = by_sentence.get(waiver.match, ())
        if not any(map(waiver.covers, likely)) and not any(map(waiver.covers, found)):
            yield _follow_up(waiver, "matched nothing; remove it")


def find_expired(
    waivers: Iterable[KnownProblem], remaining: Collection[Problem], today: date
) -> Iterator[Problem]:
    """A problem for each entry that has expired while problems that it covers are still there.

    It matters as much as the gravest of these. Those that another entry accepts do not count.
    """
    for waiver in waivers:
        if waiver.has_expired(today) and (left := [*filter(waiver.covers, remaining)]):
            are = (
                "1 problem that it accepted is"
                if len(left) == 1
                else (f"{len(left):,} problems that it accepted are")
            )
            level = min((each.level for each in left), key=list(Level).index)
            said = f"expired on {waiver.expires}, and {are} still there; fix that, or renew it"
            yield _follow_up(waiver, said, level)


def _follow_up(waiver: KnownProblem, said: str, level: Level = Level.ERROR) -> Problem:
    where = f" ({waiver.listed})" if waiver.listed else ""
    narrowed = f" for {waiver.path}" if waiver.path not in ("", "*") else ""
    return Problem(
        sentence=f"known problem {waiver.reason!r}{narrowed} {said}{where}",
        cause=f"{FOLLOW_UP}{waiver.listed or waiver}",
        level=level,
    )
