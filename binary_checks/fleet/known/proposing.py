"""Makes entries for what failed in a night: one for a fault, with the cells that have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile

from binary_checks.fleet.night import AXES, Cell, CellEnd, PlannedCell
from binary_checks.model import Problem
from binary_checks.profile.known import (
    CellCondition,
    KnownProblem,
    escape_glob,
    is_follow_up,
    read_condition,
)

PLACEHOLDER = "TODO"
"""What stands where a person has to write something."""
_PROJECT = re.compile(r"(.+?)-(?=\d)")
_OF_ONE_CELL = (
    (re.compile(r"\.cpython-\d+t?-[\w.-]+?(?=\.(?:so|dylib)$)"), ".cpython-*"),
    (re.compile(r"\.cp\d+t?-[\w.-]+?(?=\.pyd$)"), ".cp*"),
    (re.compile(r"(?<=/python)3\.\d+t?(?=/)"), "3.*"),
    (re.compile(r"-[0-9a-f]{8}(?=\.(?:so|dll|dylib|\d))"), "-????????"),
    (re.compile(r"-\d[^/-]*(?=\.(?:dist-info|data)/)"), "-*"),
)
"""What of a path differs from one Python, system or build to the next, and the glob for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedProblem:
    """A problem that nobody accepted, in one cell."""

    cell: Cell
    file_name: str
    check: str
    problem: Problem


def list_failed(planned: PlannedCell, end: CellEnd) -> Iterator[FailedProblem]:
    """What failed in a cell and an entry could accept."""
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

    Each comes with the sentence of the first problem that it accepts.
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
    """A glob that matches the path in each cell."""
    glob = escape_glob(path)
    for pattern, instead in _OF_ONE_CELL:
        glob = pattern.sub(instead, glob)
    return glob


def _match_project(file_name: str) -> str:
    """A glob for the package's files of any version."""
    found = _PROJECT.match(file_name)
    return f"{escape_glob(found[1])}-*" if found else escape_glob(file_name)


def narrow(meant: Sequence[Cell], planned: Sequence[Cell]) -> Iterator[CellCondition | None]:
    """Conditions that these cells meet, and no other planned one of their projects.

    None where these are all of them.
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
    if not axis:  # cells that differ from others in nothing but their ids
        yield from (read_condition(f"id={escape_glob(cell.id)}", "cells") for cell in meant)
        return
    for value in dict.fromkeys(getattr(cell, axis) for cell in meant):
        yield from _narrow([cell for cell in meant if getattr(cell, axis) == value], others)


def _separate(axis: str, meant: Sequence[Cell], others: Sequence[Cell]) -> str:
    """The glob on one axis that all of these meet and not all of the others; "" for none."""
    values = {getattr(cell, axis) for cell in meant}
    elsewhere = {getattr(cell, axis) for cell in others}
    if "" in values or elsewhere <= values:
        return ""
    if len(values) == 1:
        return f"{axis}={escape_glob(values.pop())}"
    start = _find_start(sorted(values))
    met = {value for value in elsewhere - values if value.startswith(start)}
    if not start or met == elsewhere - values:
        return ""
    shorter = start.rstrip("0123456789.")  # cu* rather than cu1*
    as_well = met == {value for value in elsewhere - values if value.startswith(shorter)}
    return f"{axis}={escape_glob(shorter if shorter and as_well else start)}*"


def _find_start(values: Sequence[str]) -> str:
    """What all of them begin with, of values in order."""
    pairs = zip(values[0], values[-1], strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shorten(words: list[str], others: Sequence[Cell]) -> CellCondition:
    """The condition without those words that leave out nothing which the others do not."""
    kept = list(words)
    for word in words:
        left = [each for each in kept if each != word]
        if left and not any(map(read_condition(" ".join(left), "cells").meets, others)):
            kept = left
    return read_condition(" ".join(kept), "cells")
