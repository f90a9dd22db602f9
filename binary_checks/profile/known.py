"""Known problems: matching problems and cells, and how long entries apply."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time, timedelta, timezone
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.model import Accepted, Level, Problem
from binary_checks.profile.toml_values import (
    convert,
    convert_table,
    locate,
    parse_toml,
    reject_unknown,
)

# Cells of a matrix in conditions: a value for each axis, and globs on these values.


@dataclass(frozen=True, kw_only=True, slots=True)
class CellAxes:
    """The axes of a cell; an axis is "" if its value is unknown, or the matrix lacks the axis."""

    id: str = ""
    project: str = ""
    kind: str = ""  # wheel, conda, libtorch
    libtorch: str = ""  # shared-with-deps, static-without-deps, …
    system: str = ""  # linux, macos, windows
    architecture: str = ""  # x86_64, aarch64, arm64, amd64, …, as in the system's tags
    python: str = ""  # 3.12, 3.13t
    variant: str = ""  # cpu, cu126, rocm6.4
    cxx_abi: str = ""  # pre-cxx11, cxx11
    source: str = ""  # place of publication: a table of the matrix


_NAMES = {each.name: str for each in fields(CellAxes)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCondition:
    """A glob for each axis; a cell must match all of them."""

    written: str  # "variant=cu* python=3.13*"
    globs: tuple[tuple[str, str], ...]

    def meets(self, cell: CellAxes) -> bool:
        """Return whether the cell matches."""
        return all(fnmatchcase(getattr(cell, axis), glob) for axis, glob in self.globs)


def read_condition(text: str, where: str, names: Mapping[str, type] = _NAMES) -> CellCondition:
    """Parse a condition such as ``variant=cu* python=3.13*``; a cell must match all its globs.

    Raises ProfileError.
    """
    globs = tuple(_split(text, where, "AXIS=GLOB, such as variant=cu*", names))
    if not globs:
        raise ProfileError(f"{where}: no AXIS=GLOB, such as variant=cu*")
    return CellCondition(written=" ".join(text.split()), globs=globs)


def read_cell(text: str, where: str) -> CellAxes:
    """Parse a cell such as ``id=demo-3.13-cu126,python=3.13,variant=cu126``.

    Raises ProfileError.
    """
    pairs = [*_split(text.replace(",", " "), where, "AXIS=VALUE, such as variant=cu126", _NAMES)]
    values = dict(pairs)
    if not values:
        raise ProfileError(f"{where}: no AXIS=VALUE, such as variant=cu126")
    if len(values) < len(pairs):
        raise ProfileError(f"{where}: it names an axis twice")
    return CellAxes(**values)


def format_cell(cell: CellAxes) -> str:
    """Return the one-word text that ``read_cell`` parses."""
    pairs = ((name, getattr(cell, name)) for name in _NAMES)
    return ",".join(f"{name}={value}" for name, value in pairs if value)


def _split(text: str, where: str, form: str, names: Mapping[str, type]) -> list[tuple[str, str]]:
    pairs = []
    for word in text.split():
        axis, found, value = word.partition("=")
        if not found or not value:
            raise ProfileError(f"{where}: {word:.200}: not {form}")
        reject_unknown([axis], names, where, "axis")
        pairs.append((axis, value))
    return pairs


# Problems that a project has accepted: parsing, matching and expiry of entries.

TABLE = "known_problems"
LIST = "known problems "
"""Beginning of messages about a list; the list's name follows."""
FOLLOW_UP = "known problem "
"""Beginning of the cause of problems about an entry instead of the package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProblem:
    """A waiver: problems of one check that the project has accepted, and why."""

    check: str  # check id
    reason: str
    path: str = "*"  # glob on the path of a problem
    facts: tuple[str, ...] | None = None  # all facts of a problem; None: any
    match: str = ""  # text in the sentence of a problem
    package: str = "*"  # glob on the file name of a package
    expires: date | None = None  # the last day on which it applies
    owner: str = ""  # who maintains it
    issue: str = ""  # the issue about it
    cells: CellCondition | None = None  # None: all cells
    # the file and position of the entry: "own.toml: known_problems[0]"
    listed: str = field(default="", compare=False)
    # whether several runs share the entry, so that some match nothing
    is_shared: bool = field(default=False, compare=False)

    def selects(self, package_file_name: str) -> bool:
        """Return whether the entry applies to a package of that file name."""
        return fnmatchcase(package_file_name, self.package)

    def holds_in(self, cell: CellAxes | None) -> bool:
        """Return whether the entry applies in that cell; None if the run's cell is unknown."""
        return self.cells is None or (cell is not None and self.cells.meets(cell))

    def covers(self, problem: Problem) -> bool:
        """Return whether the entry matches that problem, regardless of the date."""
        return (
            self.facts in (None, problem.facts)
            and self.match in problem.sentence
            and fnmatchcase(problem.path, self.path)
        )

    def has_expired(self, today: date) -> bool:
        """Return whether the entry has expired."""
        return self.expires is not None and today > self.expires


def read_known_problems(
    rows: Iterable[object], where: str, *, shared: bool = False
) -> tuple[KnownProblem, ...]:
    """Parse an array of tables.

    Raises ProfileError, which names the invalid table.
    """
    hints = {**typing.get_type_hints(KnownProblem), "cells": str}
    kinds = {name: kind for name, kind in hints.items() if name not in ("listed", "is_shared")}
    return tuple(
        _read_entry(row, kinds, f"{where}: {TABLE}[{index}]", shared=shared)
        for index, row in enumerate(rows)
    )


def _read_entry(row: object, kinds: dict[str, Any], where: str, *, shared: bool) -> KnownProblem:
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table")
    values = convert_table(row, kinds, where)
    for required in ("check", "reason"):
        if not row.get(required):
            first = next(iter(row), "")
            raise ProfileError(f"{locate(where, first)}: {required!r} is missing")
    if "cells" in values:
        values["cells"] = read_condition(values["cells"], f"{where}: cells")
    return KnownProblem(**values, listed=where, is_shared=shared)


Identity = tuple[str, tuple[str, ...]]
"""The path and facts of a problem, which distinguish it from all other problems of its check."""


def escape_glob(text: str) -> str:
    """Return a glob that matches only the text."""
    return re.sub(r"([*?[])", r"[\1]", text)


def find_identity(waiver: KnownProblem) -> Identity | None:
    """Return the identity of the only problem that an entry can match; None if it may match more.

    Lists written by a run have such entries, one for each problem, sometimes thousands: they are
    looked up in a table, and only other entries are compared one by one.
    """
    path = re.sub(r"\[([*?[])\]", r"\1", waiver.path)
    exact = waiver.facts is not None and escape_glob(path) == waiver.path
    return (path, waiver.facts) if exact and waiver.facts is not None else None


def accept(
    problems: Iterable[Problem], waivers: Iterable[KnownProblem], today: date
) -> Iterator[Accepted]:
    """Yield, in order, the problems that an entry accepts today, with its reason."""
    exact: dict[Identity, list[KnownProblem]] = {}
    wide = []
    for each in waivers:
        if each.has_expired(today):
            continue
        if (identity := find_identity(each)) is None:
            wide.append(each)
        else:
            exact.setdefault(identity, []).append(each)
    for problem in sorted(problems):
        likely = chain(exact.get((problem.path, problem.facts), ()), wide)
        waiver = next((each for each in likely if each.covers(problem)), None)
        if waiver is not None:
            expires = "" if waiver.expires is None else waiver.expires.isoformat()
            yield Accepted(problem=problem, reason=waiver.reason, expires=expires)


def _match(
    waivers: Iterable[KnownProblem], problems: Collection[Problem]
) -> Iterator[tuple[KnownProblem, list[Problem]]]:
    """Yield each entry with the problems of its check that it matches, expired or not."""
    by_identity: dict[Identity, list[Problem]] = {}
    for each in problems:
        by_identity.setdefault((each.path, each.facts), []).append(each)
    for waiver in waivers:
        identity = find_identity(waiver)
        likely = problems if identity is None else by_identity.get(identity, ())
        yield waiver, [*filter(waiver.covers, likely)]


def is_follow_up(problem: Problem) -> bool:
    """Return whether the problem is about an entry, so that no change of the package fixes it."""
    return problem.cause.startswith(FOLLOW_UP)


def find_stale(waivers: Iterable[KnownProblem], found: Collection[Problem]) -> Iterator[Problem]:
    """Yield a problem for each entry that matches nothing, expired or not.

    Shared entries are left out, because they may match in another cell.
    """
    own = [waiver for waiver in waivers if not waiver.is_shared]
    for waiver, matched in _match(own, found):
        if not matched:
            yield _follow_up(waiver, "matched nothing; remove it")


def find_expired(
    waivers: Iterable[KnownProblem], remaining: Collection[Problem], today: date
) -> Iterator[Problem]:
    """Yield a problem for each expired entry if problems that it matches remain.

    The new problem has the level of the gravest of them. Problems that another entry accepts do not
    count.
    """
    expired = [waiver for waiver in waivers if waiver.has_expired(today)]
    for waiver, left in _match(expired, remaining):
        if left:
            left_over = (
                "1 problem that it accepted remains"
                if len(left) == 1
                else (f"{len(left):,} problems that it accepted remain")
            )
            level = min((each.level for each in left), key=list(Level).index)
            text = (
                f"expired on {waiver.expires}, but {left_over}; fix the problem, or renew the entry"
            )
            yield _follow_up(waiver, text, level)


def _follow_up(waiver: KnownProblem, text: str, level: Level = Level.ERROR) -> Problem:
    where = f" ({waiver.listed})" if waiver.listed else ""
    narrowed = f" for {waiver.path}" if waiver.path not in ("", "*") else ""
    return Problem(
        sentence=f"known problem {waiver.reason!r}{narrowed} {text}{where}",
        facts=(waiver.listed or waiver.reason,),
        cause=f"{FOLLOW_UP}{waiver.listed or waiver}",
        level=level,
    )


# A whole list of known problems: its entries, and its period of validity.

LARGEST_LIST = 16 << 20
"""Limit on the size of a list, in bytes."""
_KEYS = {TABLE: list, "issued": date, "valid_until": date}
_SKEW = timedelta(minutes=5)  # tolerated difference between clocks
_FARTHEST_EAST = timedelta(hours=14)  # largest offset from UTC; a date begins there first


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownList:
    """The contents of one list; a published list has ``issued`` or ``valid_until``."""

    entries: tuple[KnownProblem, ...] = ()
    issued: str = ""  # as written, 2026-11-22 or 2026-11-22T04:00:00+00:00; "" if not stated
    valid_until: str = ""  # in the same format; a date includes the whole day in UTC

    def issued_at(self) -> datetime | None:
        """Return the time of issue; for a date, the beginning of the day in UTC."""
        return _as_time(self.issued, time.min) if self.issued else None

    def valid_to(self) -> datetime | None:
        """Return the last moment of validity."""
        return _as_time(self.valid_until, time.max) if self.valid_until else None

    def find_fault(self, now: datetime) -> str:
        """Return why the list's entries do not apply at that time; "" if they do."""
        issued, until = self.issued_at(), self.valid_to()
        if until is not None and now > until:
            return f"it was valid until {self.valid_until}"
        ahead = _SKEW if "T" in self.issued else _SKEW + _FARTHEST_EAST
        if issued is not None and issued > now + ahead:
            return f"its issue date is {self.issued}, which is in the future"
        return ""


def _as_time(text: str, of_day: time) -> datetime:
    if "T" in text:
        return datetime.fromisoformat(text)
    return datetime.combine(date.fromisoformat(text), of_day, timezone.utc)


def read_known_list(content: bytes, where: str) -> KnownList:
    """Parse the contents of a list.

    Raises ProfileError with a message that begins with ``where``.
    """
    table = parse_toml(content, where)
    reject_unknown(table, _KEYS, where, "key")
    issued = _read_time(table, "issued", where)
    valid_until = _read_time(table, "valid_until", where)
    found = KnownList(
        entries=read_known_problems(
            convert(table.get(TABLE, []), list, f"{where}: {TABLE}"),
            where,
            shared=bool(issued or valid_until),
        ),
        issued=issued,
        valid_until=valid_until,
    )
    first, last = found.issued_at(), found.valid_to()
    if first is not None and last is not None and first > last:
        raise ProfileError(
            f"{where}: valid_until: {valid_until} is before the issue date, {issued}"
        )
    return found


def _read_time(table: dict[str, Any], key: str, where: str) -> str:
    """Return a date, or a time with its offset from UTC, as text; "" if the key is absent."""
    value = table.get(key)
    if value is None:
        return ""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ProfileError(f"{where}: {key}: {value.isoformat()} has no offset from UTC: add Z")
        return value.isoformat()
    return str(convert(value, date, f"{where}: {key}").isoformat())


def load_known_list(path: Path, name: str) -> KnownList:
    """Read a list from a file; messages call the file ``name``.

    Raises ProfileError.
    """
    where = f"{LIST}{name}"
    return read_known_list(read_named(path, LARGEST_LIST, where), where)
