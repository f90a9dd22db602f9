"""The trends: how many cells were not well, what files weigh, and what nights take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from binary_checks.fleet.page.charts import Chart, draw_line, draw_states
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import name_cell_page, name_file, spell, spell_seconds
from binary_checks.reports.html.figures import spell_size

_NAMED = 8  # cells that take longest, and that are largest


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectTrends:
    """One project over the nights that are shown, or all; None where there is nothing to draw."""

    name: str
    anchor: str
    cells: int
    states: Chart | None
    size: Chart | None
    time: Chart | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendsPage:
    """All projects together, and each."""

    whole: tuple[tuple[str, Chart], ...]
    ranked: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]  # cell, its page, value
    projects: tuple[ProjectTrends, ...]


def lay_out_trends(history: History, shown: int) -> TrendsPage:
    """What the page shows of a history, with so many nights."""
    nights = history.nights[-shown:]
    by_project: dict[str, list[CellNight]] = {}
    for rows in history.cells.values():
        for night in nights:
            if night in rows:
                by_project.setdefault(rows[night].project, []).append(rows[night])
    every = [row for rows in by_project.values() for row in rows]
    last = [row for row in every if row.night == history.last]
    whole = _draw("", every, nights)
    charts = (
        ("Cells that were not well", whole.states),
        ("Size of all files", whole.size),
        ("Time of all cells", whole.time),
    )
    ranked = (
        ("Slowest tonight", _rank(last, lambda row: row.seconds, spell_seconds)),
        ("Largest tonight", _rank(last, lambda row: row.size, spell_size)),
    )
    return TrendsPage(
        whole=tuple((title, chart) for title, chart in charts if chart),
        ranked=tuple((title, cells) for title, cells in ranked if cells),
        projects=tuple(_draw(name, by_project[name], nights) for name in sorted(by_project)),
    )


def _draw(project: str, rows: Iterable[CellNight], nights: Iterable[str]) -> ProjectTrends:
    by_night: dict[str, list[CellNight]] = {night: [] for night in nights}
    for row in rows:
        by_night[row.night].append(row)
    alone = not project  # of several dozen charts none says its values to who points at it
    states = [(night, [row.state for row in rows]) for night, rows in by_night.items()]
    return ProjectTrends(
        name=spell(project),
        anchor=f"project-{name_file(project)}",
        cells=max(map(len, by_night.values())),
        states=draw_states(states, titled=alone),
        size=_add_up(by_night, lambda row: row.size, spell_size, titled=alone),
        time=_add_up(by_night, lambda row: row.seconds, spell_seconds, titled=alone),
    )


def _add_up(
    by_night: Mapping[str, Iterable[CellNight]],
    measure: Callable[[CellNight], float],
    spelled: Callable[[float], str],
    *,
    titled: bool,
) -> Chart | None:
    """The sum of each night in which anything was measured."""
    sums = [(night, sum(map(measure, rows))) for night, rows in by_night.items()]
    return draw_line([each for each in sums if each[1]], spelled, titled=titled)


def _rank(
    rows: Iterable[CellNight],
    measure: Callable[[CellNight], float],
    spelled: Callable[[float], str],
) -> tuple[tuple[str, str, str], ...]:
    found = sorted((row for row in rows if measure(row)), key=lambda row: (-measure(row), row.cell))
    return tuple(
        (spell(row.cell), name_cell_page(row.cell), spelled(measure(row))) for row in found[:_NAMED]
    )
