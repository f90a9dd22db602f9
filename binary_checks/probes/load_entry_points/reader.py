"""Load the entry points of an installed package, and report those that cannot be loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Conditions,
    Distribution,
    Ending,
    EntryPoint,
    LoadedEntryPoint,
    LoadedEntryPoints,
    Place,
    ProbeAnswer,
    applies,
    read_entry_points,
    read_numbers,
    read_requirement,
)
from binary_checks.probes.answers import (
    last_lines,
    list_texts,
    read_death,
    read_row,
    read_text,
)
from binary_checks.probes.shared_time import SharedTime

_Points = tuple[EntryPoint, ...]


@gathers(LoadedEntryPoints)
def load_entry_points(place: Place, package: Distribution) -> LoadedEntryPoints:
    """Load all entry points of a package. Raises Unavailable if it could not be installed."""
    points = [each for each in read_entry_points(package) if isinstance(each, EntryPoint)]
    if not points:
        raise NotApplicable("no entry points")
    report = place.install(package)
    place.require_installed(package)
    if report is not None:
        return replace(load_each(place, points), requirements_installed=True)
    found = map(read_requirement, package.requires_dist)
    here = place.target.markers
    return load_each(place, points, [each.name for each in found if each and applies(each, here)])


def load_each(
    place: Place,
    points: Iterable[EntryPoint],
    required: Sequence[str] = (),
    now: Callable[[], float] = time.monotonic,
) -> LoadedEntryPoints:
    """Load these entry points, while time is left for the package.

    Entry points of groups that are not always loaded are first loaded together in one process: a
    client of a cloud has a thousand entry points.
    """
    groups: dict[tuple[str, str], list[EntryPoint]] = {}
    together: dict[str, list[tuple[str, str]]] = {}
    for point in points:
        key = ("" if point.is_script else point.group, point.module)
        if key not in groups and not point.is_always_loaded:
            together.setdefault(point.group, []).append(key)
        groups.setdefault(key, []).append(point)
    left, untried = SharedTime(place.timeout, now), list[EntryPoint]()
    loader = _Loader(place, required)
    loaded = dict[EntryPoint, LoadedEntryPoint]()
    for keys in together.values():
        if len(keys) > 1 and not left.spent:
            found = loader.load_together([tuple(groups[key]) for key in keys])
            loaded.update((each.point, each) for each in found)
    limit = ""
    for group in groups.values():
        if all(point in loaded for point in group):
            continue
        limit = limit or left.spent
        if limit:
            untried += group
        else:
            loaded.update((each.point, each) for each in loader.load_alone(tuple(group)))
    numbers = (*read_numbers(place.target.version), 0, 0)
    return LoadedEntryPoints(
        python=place.target.name,
        version=(numbers[0], numbers[1]),
        points=tuple(loaded.values()),
        lacking=loader.lacking,
        untried=tuple(untried),
        limit=limit,
    )


class _Loader:
    """Loads entry points in processes of a place."""

    def __init__(self, place: Place, required: Sequence[str]) -> None:
        self._place = place
        self._required = required
        self.lacking: tuple[str, ...] = ()  # requirements that are not installed

    def load_together(self, groups: Sequence[_Points]) -> list[LoadedEntryPoint]:
        """Load the modules in one process; return the entry points that were loaded."""
        answer = self._run(groups).answer.get("modules")
        rows = answer if isinstance(answer, list) and len(answer) == len(groups) else []
        read = [
            _read(point, row, self._place)
            for group, each in zip(groups, rows, strict=False)
            for point, row in zip(group, each, strict=False)
        ]
        return [each for each in read if each.step.outcome is Ending.OK]

    def load_alone(self, group: _Points) -> list[LoadedEntryPoint]:
        """Load the entry points of one module in a separate process."""
        place = self._place
        result = self._run([group])
        answer = result.answer.get("modules")
        rows = answer[0] if isinstance(answer, list) and len(answer) == 1 else None
        if isinstance(rows, list) and len(rows) == len(group):
            return [
                _read(point, row, place, result) for point, row in zip(group, rows, strict=True)
            ]
        step = read_death(group[0].module, result, place)
        return [LoadedEntryPoint(point=point, step=step) for point in group]

    def _run(self, groups: Sequence[_Points]) -> ProbeAnswer:
        modules = [
            {
                "module": group[0].module,
                "points": [{"attribute": p.attribute, "script": p.is_script} for p in group],
            }
            for group in groups
        ]
        asked = {
            "command": groups[0][0].name,
            "modules": modules,
            "required": list(self._required),
        }
        conditions = Conditions(bytecode=True)
        result = self._place.run("load_entry_points", asked, conditions=conditions)
        self.lacking = list_texts(result.answer, "lacking") or self.lacking
        return result


def _read(
    point: EntryPoint, row: Mapping[str, Any], place: Place, result: ProbeAnswer | None = None
) -> LoadedEntryPoint:
    stderr = last_lines(place.scrub(result.stderr)) if result else ""
    return LoadedEntryPoint(
        point=point,
        step=replace(read_row(point.module, row, place), stderr=stderr),
        exception=read_text(row, "exception"),
        imported=row.get("imported") is True,
        callable=row.get("callable") is not False,
    )
