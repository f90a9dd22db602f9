"""The trends of each project: how many cells were well, what they weigh, and what nights take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from binary_checks.fleet.page.charts import Chart, draw_line, draw_states
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import name_cell_page, name_file, spell, spell_seconds
from binary_checks.reports.html.figures import spell_size

_NAMED = 8  # cells that take longest, and that are largest


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectTrends:
    """One project over the nights that are shown."""

    name: str
    anchor: str
    charts: tuple[tuple[str, Chart], ...]
    slowest: tuple[tuple[str, str, str], ...]  # cell, its page, time
    largest: tuple[tuple[str, str, str], ...]  # cell, its page, size


def find_trends(history: History, shown: int) -> tuple[ProjectTrends, ...]:
    """Every project, by name."""
    nights = history.nights[-shown:]
    by_project: dict[str, list[CellNight]] = {}
    for rows in history.cells.values():
        for night in nights:
            if night in rows:
                by_project.setdefault(rows[night].project, []).append(rows[night])
    return tuple(
        ProjectTrends(
            name=spell(project),
            anchor=f"project-{name_file(project)}",
            charts=tuple(_draw(by_project[project], nights)),
            slowest=_rank(
                by_project[project], history.last, lambda row: row.seconds, spell_seconds
            ),
            largest=_rank(by_project[project], history.last, lambda row: row.size, _spell_bytes),
        )
        for project in sorted(by_project)
    )


def _draw(rows: Iterable[CellNight], nights: Iterable[str]) -> Iterator[tuple[str, Chart]]:
    by_night: dict[str, list[CellNight]] = {night: [] for night in nights}
    for row in rows:
        by_night[row.night].append(row)
    states = [(night, [row.state for row in rows]) for night, rows in by_night.items()]
    if chart := draw_states(states, titled=False):
        yield "Cells that were not well", chart
    for title, measure, spelled in (
        ("Size of all files", lambda row: float(row.size), _spell_bytes),
        ("Time of all cells", lambda row: row.seconds, spell_seconds),
    ):
        sums = [(night, sum(map(measure, rows))) for night, rows in by_night.items() if rows]
        if any(value for _, value in sums) and (line := draw_line(sums, spelled, titled=False)):
            yield title, line


def _rank(
    rows: Iterable[CellNight],
    night: str,
    measure: Callable[[CellNight], float],
    spelled: Callable[[float], str],
) -> tuple[tuple[str, str, str], ...]:
    found = [row for row in rows if row.night == night and measure(row)]
    found.sort(key=lambda row: (-measure(row), row.cell))
    return tuple(
        (spell(row.cell), name_cell_page(row.cell), spelled(measure(row))) for row in found[:_NAMED]
    )


def _spell_bytes(size: float) -> str:
    return spell_size(round(size))
