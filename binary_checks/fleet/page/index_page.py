"""The index: what broke tonight, then every project's nights and cells, the failing ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from binary_checks.fleet.page.charts import Chart, draw_states
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.morning import Breakage, Morning, TroubledCell
from binary_checks.fleet.page.morning_texts import tally
from binary_checks.fleet.page.naming import (
    TONES,
    label_cells,
    name_cell_page,
    name_file,
    spell,
)
from binary_checks.fleet.states import GOOD, LETTERS, CellState

_AT_ONCE = 4  # cells of a breakage that are named before any is unfolded
_LINKED = 2_000  # letters that are links; of more, only those that differ from the night before
_ORDER = {state: rank for rank, state in enumerate(
    (CellState.FAILED, CellState.LOST, CellState.INFRA, CellState.NOT_JUDGED, CellState.MISSING,
     CellState.STALE, CellState.FLAKY, CellState.BLOCKED, CellState.KNOWN, CellState.PASSED)
)}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A word that leads somewhere below the site's folder; nowhere where it is empty."""

    text: str
    href: str = ""
    tone: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GridRow:
    """A cell's nights, the last one first."""

    label: Link
    nights: tuple[Link | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownProject:
    """One project: its tally, its cells that were not always well, and the others."""

    name: str
    anchor: str
    tally: tuple[tuple[str, str, str], ...]  # tone, number, word
    rows: tuple[GridRow, ...]
    steady: tuple[Link, ...]  # cells that passed in every night that is shown


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPage:
    """The nights of all cells, and what else the index shows beside the morning."""

    tone: str
    days: tuple[tuple[str, str], ...]  # date, and how its column is headed
    projects: tuple[ShownProject, ...]
    steady: int  # cells that passed in every night that is shown
    trend: Chart | None
    labels: Mapping[str, str]  # of cells, where their project is named already
    explained: frozenset[str]  # checks that checks.html has a text of


def lay_out_index(
    history: History, morning: Morning, shown: int, explained: frozenset[str]
) -> IndexPage:
    """What the index shows of a history, with so many nights in its tables."""
    nights = tuple(reversed(history.nights[-shown:]))
    labels = _label_all(history)
    projects = tuple(_projects(history, morning, nights, labels))
    return IndexPage(
        tone=_judge_tone(morning),
        days=tuple(_head(nights)),
        projects=projects,
        steady=sum(len(each.steady) for each in projects),
        trend=_draw_trend(history, nights),
        labels=labels,
        explained=explained,
    )


def link_cells(broken: Breakage, labels: Mapping[str, str]) -> tuple[list[Link], list[Link]]:
    """The cells that are named, and those that are shown when it is unfolded."""
    several = len(broken.projects) > 1
    links = [
        name_cell(cell.row, labels) if several else _link(cell.row, labels) for cell in broken.cells
    ]
    named = _AT_ONCE if len(links) > _AT_ONCE + 1 else _AT_ONCE + 1
    return links[:named], links[named:]


def name_cell(row: CellNight, labels: Mapping[str, str]) -> Link:
    """A link to a cell where its project is not named."""
    label, project = labels[row.cell], spell(row.project)
    return _link(row, labels, label if label.startswith(project) else f"{project} {label}")


def fold(
    cells: Sequence[TroubledCell], labels: Mapping[str, str], since: Callable[[TroubledCell], str]
) -> tuple[list[tuple[Link, str]], list[tuple[Link, str]]]:
    """The same of cells with a time each: those of the same time have it after the last of them."""
    said = [since(each) for each in cells]
    shown = [
        (name_cell(cell.row, labels), text if ends or said[index + 1] != text else "")
        for index, (cell, text) in enumerate(zip(cells, said, strict=True))
        for ends in (index + 1 in {_AT_ONCE, len(cells)},)
    ]
    return shown[:_AT_ONCE], shown[_AT_ONCE:]


def _judge_tone(morning: Morning) -> str:
    if morning.counts.get(CellState.FAILED):
        return "bad"
    return "good" if morning.is_well and morning.total else "mild"


def _label_all(history: History) -> dict[str, str]:
    """How each cell is called where its project is named already."""
    by_project: dict[str, list[CellNight]] = {}
    for rows in history.cells.values():
        last = rows[max(rows)]
        by_project.setdefault(last.project, []).append(last)
    return {
        cell: label for rows in by_project.values() for cell, label in label_cells(rows).items()
    }


def spell_change(cell: TroubledCell) -> str:
    """What became of the file that passed last."""
    good, row = cell.last_good, cell.row
    if good is None:
        return "" if cell.known_before else "no earlier night passed"
    if good.sha256 and good.sha256 == row.sha256:
        return f"same file as passed on {good.night}"
    if good.version != row.version:
        return f"{spell(good.version, 40)} passed on {good.night}, now {spell(row.version, 40)}"
    return f"another file of {spell(row.version, 40)} passed on {good.night}"


def _link(row: CellNight, labels: Mapping[str, str], text: str = "") -> Link:
    return Link(text=text or labels[row.cell], href=name_cell_page(row.cell), tone=TONES[row.state])


def _head(nights: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The day of each night; the month where it changes."""
    for night in nights:
        yield night, night[8:10]


def _projects(
    history: History, morning: Morning, nights: tuple[str, ...], labels: Mapping[str, str]
) -> list[ShownProject]:
    """Every project with a cell in these nights, those that fail most first."""
    by_project: dict[str, list[str]] = {}
    for cell, rows in history.cells.items():
        if any(night in rows for night in nights):
            by_project.setdefault(rows[max(rows)].project, []).append(cell)
    grid = _Grid(
        history=history,
        nights=nights,
        labels=labels,
        fresh=frozenset(cell.row.cell for each in morning.broke for cell in each.cells),
        every=_count_links(history, nights) <= _LINKED,
    )
    broke = {project for each in morning.broke for project in each.projects}
    shown = [(name not in broke, grid.show(name, cells)) for name, cells in by_project.items()]
    shown.sort(key=lambda each: (each[0], -_count_bad(each[1]), each[1].name))
    return [project for _, project in shown]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Grid:
    """What the grids of all projects are drawn from."""

    history: History
    nights: tuple[str, ...]  # the last one first
    labels: Mapping[str, str]
    fresh: frozenset[str]  # cells that broke tonight
    every: bool  # whether every letter of a cell that is not well is a link

    def show(self, name: str, cells: Iterable[str]) -> ShownProject:
        """One project."""
        cells = sorted(cells)
        steady = [cell for cell in cells if self._is_steady(cell)]
        troubled = sorted({*cells} - {*steady}, key=self._rank)
        last = (self.history.cells[cell].get(self.history.last) for cell in cells)
        return ShownProject(
            name=spell(name),
            anchor=f"project-{name_file(name)}",
            tally=tally(Counter(row.state for row in last if row)),
            rows=tuple(map(self._row, troubled)),
            steady=tuple(
                _link(self.history.cells[cell][self.history.last], self.labels) for cell in steady
            ),
        )

    def _is_steady(self, cell: str) -> bool:
        """Whether a cell passed in each of its nights, the last one among them."""
        rows = self.history.cells[cell]
        states = (row.state for night in self.nights if (row := rows.get(night)))
        return self.history.last in rows and all(state in GOOD for state in states)

    def _rank(self, cell: str) -> tuple[bool, bool, int, str]:
        row = self.history.cells[cell].get(self.history.last)
        if row is None:
            return (True, True, 0, cell)
        return (False, cell not in self.fresh, _ORDER[row.state], cell)

    def _row(self, cell: str) -> GridRow:
        rows = self.history.cells[cell]
        href = name_cell_page(cell) if self.history.last in rows else ""
        return GridRow(
            label=Link(text=self.labels[cell], href=href),
            nights=tuple(_letters(rows, self.nights, every=self.every, href=href)),
        )


def _count_bad(project: ShownProject) -> int:
    return sum(int(number.replace(",", "")) for tone, number, _ in project.tally if tone == "bad")


def _count_links(history: History, nights: Iterable[str]) -> int:
    nights = {*nights}
    return sum(
        row.state not in GOOD
        for rows in history.cells.values()
        for night, row in rows.items()
        if night in nights
    )


def _letters(
    rows: Mapping[str, CellNight], nights: tuple[str, ...], *, every: bool, href: str
) -> Iterator[Link | None]:
    """A letter a night; a cell that is well, or has no page, is no link."""
    for index, night in enumerate(nights):
        row = rows.get(night)
        if row is None:
            yield None
            continue
        before = rows.get(nights[index + 1]) if index + 1 < len(nights) else None
        begins = before is None or before.state is not row.state
        seen = before is not None or index + 1 < len(nights)  # else it may have begun earlier
        linked = href and row.state not in GOOD and (every or begins or not index)
        tone = "" if row.state is CellState.PASSED else TONES[row.state]
        if row.state is CellState.FAILED and begins and seen:
            tone = f"{tone} new"
        yield Link(text=LETTERS[row.state], href=f"{href}#n{night}" if linked else "", tone=tone)


def _draw_trend(history: History, nights: Iterable[str]) -> Chart | None:
    states = [
        (night, [row.state for rows in history.cells.values() if (row := rows.get(night))])
        for night in sorted(nights)
    ]
    return draw_states(states)
