"""The content of the site's pages: the index, a page for each cell, and the trends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from binary_checks.fleet.causes.cause_rules import shipped_causes
from binary_checks.fleet.night import AXES, GOOD
from binary_checks.fleet.page.charts import Chart, draw_line, draw_stacks, draw_states
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import (
    MARKS,
    TONES,
    format_seconds,
    format_since,
    format_text,
    label_cells,
    name_cell_page,
    name_file,
)
from binary_checks.fleet.page.night_comparison import Breakage, Morning, TroubledCell, tally
from binary_checks.model import CellState
from binary_checks.reports.html.templating import format_size
from binary_checks.reports.verdict_texts import count

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_AT_ONCE = 4  # cells of a breakage that are shown before it is unfolded
# most links in the tables; beyond that, only a letter that differs from the night before is a link
_LINKED = 2_000
_ORDER = {state: rank for rank, state in enumerate(
    (CellState.FAILED, CellState.LOST, CellState.INFRA, CellState.NOT_JUDGED, CellState.MISSING,
     CellState.STALE, CellState.FLAKY, CellState.BLOCKED, CellState.KNOWN, CellState.PASSED)
)}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A word with a link to a path in the site, if ``href`` is not empty."""

    text: str
    href: str = ""
    tone: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GridRow:
    """A cell's nights, the latest first."""

    label: Link
    nights: tuple[Link | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DepartedCell:
    """A cell that the last night did not plan, and how its own last night ended."""

    label: str
    night: str
    letter: str
    tone: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownProject:
    """One project: its tally, cells with trouble, cells that always passed, and departed cells."""

    name: str
    anchor: str
    tally: tuple[tuple[str, str, str], ...]  # tone, number, word
    rows: tuple[GridRow, ...]
    steady: tuple[Link, ...]  # cells that passed in every night shown
    departed: tuple[DepartedCell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPage:
    """The content of the index in addition to the morning, such as the nights of all cells."""

    tone: str
    months: tuple[tuple[str, int], ...]  # name of a month, and number of its nights
    days: tuple[tuple[str, str], ...]  # date and column header
    projects: tuple[ShownProject, ...]
    steady: int  # number of cells that passed in every night shown
    departed: int  # number of cells that were planned in a night shown, but not in the last one
    trend: Chart | None
    labels: Mapping[str, str]  # cell -> label next to its project's name
    names: Mapping[str, str]  # cell that departed tonight -> its project's name and its label
    explained: frozenset[str]  # checks with a description in checks.html


def lay_out_index(
    history: History, morning: Morning, shown: int, explained: frozenset[str]
) -> IndexPage:
    """Return the index for a history, with ``shown`` nights in its tables."""
    nights = tuple(reversed(history.nights[-shown:]))
    labels = _label_all(history)
    projects = tuple(_projects(history, morning, nights, labels))
    return IndexPage(
        tone=_judge_tone(morning),
        months=tuple(_name_months(nights)),
        days=tuple((night, night[8:10]) for night in nights),
        projects=projects,
        steady=sum(len(each.steady) for each in projects),
        departed=sum(len(each.departed) for each in projects),
        trend=_draw_trend(history, nights),
        labels=labels,
        names={
            cell: name_cell(history.cells[cell][morning.before], labels).text
            for cell in morning.gone
        },
        explained=explained,
    )


def link_cells(broken: Breakage, labels: Mapping[str, str]) -> tuple[list[Link], list[Link]]:
    """Return the cells that are shown, and those that are folded."""
    several = len(broken.projects) > 1
    links = [
        name_cell(cell.row, labels) if several else _link(cell.row, labels) for cell in broken.cells
    ]
    named = _AT_ONCE if len(links) > _AT_ONCE + 1 else _AT_ONCE + 1
    return links[:named], links[named:]


def name_cell(row: CellNight, labels: Mapping[str, str]) -> Link:
    """Return a link to a cell that includes its project's name."""
    label, project = labels[row.cell], format_text(row.project)
    return _link(row, labels, label if label.startswith(project) else f"{project} {label}")


def fold(
    cells: Sequence[TroubledCell], labels: Mapping[str, str], since: Callable[[TroubledCell], str]
) -> tuple[list[tuple[Link, str]], list[tuple[Link, str]]]:
    """Return links to cells with their times, shown and folded ones.

    Of consecutive cells with the same time, only the last link is followed by the time.
    """
    texts = [since(each) for each in cells]
    shown = [
        (name_cell(cell.row, labels), text if ends or texts[index + 1] != text else "")
        for index, (cell, text) in enumerate(zip(cells, texts, strict=True))
        for ends in (index + 1 in {_AT_ONCE, len(cells)},)
    ]
    return shown[:_AT_ONCE], shown[_AT_ONCE:]


def _judge_tone(morning: Morning) -> str:
    if morning.counts.get(CellState.FAILED):
        return "bad"
    return "good" if morning.is_well and morning.total else "mild"


def _label_all(history: History) -> dict[str, str]:
    """Return cell -> the label that is shown next to its project's name."""
    return label_cells(rows[max(rows)] for rows in history.cells.values())


def format_change(cell: TroubledCell) -> str:
    """Return in words how the file has changed since the cell last passed."""
    good, row = cell.last_good, cell.row
    if good is None:
        is_first = cell.since == row.night
        return "" if cell.known_before or is_first else "no earlier night passed"
    if good.sha256 and good.sha256 == row.sha256:
        return f"same file as passed on {good.night}"
    if good.version != row.version:
        old, new = format_text(good.version, 40), format_text(row.version, 40)
        return f"{old} passed on {good.night}, now {new}"
    return f"another file of {format_text(row.version, 40)} passed on {good.night}"


def _link(row: CellNight, labels: Mapping[str, str], text: str = "") -> Link:
    return Link(text=text or labels[row.cell], href=name_cell_page(row.cell), tone=TONES[row.state])


def _name_months(nights: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the abbreviated name of each month, and how many of the nights are in it."""
    for month, group in groupby(nights, key=lambda night: night[:7]):
        yield _MONTHS[int(month[5:]) - 1], len([*group])


def _projects(
    history: History, morning: Morning, nights: tuple[str, ...], labels: Mapping[str, str]
) -> list[ShownProject]:
    """Return every project with a cell in these nights, those with new failures first."""
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
    """The values that the tables of all projects share."""

    history: History
    nights: tuple[str, ...]  # the latest first
    labels: Mapping[str, str]
    fresh: frozenset[str]  # cells that broke in the last night
    every: bool  # whether every letter of a failed cell is a link

    def show(self, name: str, cells: Iterable[str]) -> ShownProject:
        """Return the content of one project's table."""
        planned = sorted(cell for cell in cells if self.history.last in self.history.cells[cell])
        steady = [cell for cell in planned if self._is_steady(cell)]
        troubled = sorted({*planned} - {*steady}, key=self._rank)
        return ShownProject(
            name=format_text(name),
            anchor=f"project-{name_file(name)}",
            tally=tally(Counter(self._tonight(cell).state for cell in planned)),
            rows=tuple(map(self._row, troubled)),
            steady=tuple(_link(self._tonight(cell), self.labels) for cell in steady),
            departed=tuple(map(self._describe_departed, sorted({*cells} - {*planned}))),
        )

    def _tonight(self, cell: str) -> CellNight:
        return self.history.cells[cell][self.history.last]

    def _describe_departed(self, cell: str) -> DepartedCell:
        rows = self.history.cells[cell]
        night = max(rows)
        state = rows[night].state
        return DepartedCell(
            label=self.labels[cell], night=night, letter=MARKS[state], tone=TONES[state]
        )

    def _is_steady(self, cell: str) -> bool:
        """Return whether a cell passed in each of its nights."""
        rows = self.history.cells[cell]
        return all(row.state in GOOD for night in self.nights if (row := rows.get(night)))

    def _rank(self, cell: str) -> tuple[bool, int, str]:
        return (cell not in self.fresh, _ORDER[self._tonight(cell).state], cell)

    def _row(self, cell: str) -> GridRow:
        href = name_cell_page(cell)
        rows = self.history.cells[cell]
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
    """Yield a letter for each night, linked if the cell had trouble."""
    for index, night in enumerate(nights):
        row = rows.get(night)
        if row is None:
            yield None
            continue
        before = rows.get(nights[index + 1]) if index + 1 < len(nights) else None
        begins = before is None or before.state is not row.state
        # otherwise the state may have begun in an earlier night
        seen = before is not None or index + 1 < len(nights)
        linked = row.state not in GOOD and (every or begins or not index)
        tone = "" if row.state is CellState.PASSED else TONES[row.state]
        if row.state is CellState.FAILED and begins and seen:
            tone = f"{tone} new"
        yield Link(text=MARKS[row.state], href=f"{href}#n{night}" if linked else "", tone=tone)


def _draw_trend(history: History, nights: Iterable[str]) -> Chart | None:
    states = [
        (night, [row.state for rows in history.cells.values() if (row := rows.get(night))])
        for night in sorted(nights)
    ]
    return draw_states(states)


# The page of one cell: its problems, its changes, the command to repeat it, and earlier nights.

_SAME = "the same"


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRow:
    """One night of the cell."""

    night: str
    letter: str
    tone: str
    state: str
    version: str
    is_new: bool  # whether the night before had another file
    size: str
    seconds: str
    summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellPage:
    """The content of a cell's page."""

    cell: str
    project: str
    state: str
    letter: str
    tone: str
    since: str
    summary: str
    cause: str
    facts: tuple[tuple[str, str], ...]
    axes: tuple[tuple[str, str], ...]
    commit: Link | None  # the page of the commit that its package was built from
    evidence: CellEvidence
    compared: str  # the build that it is compared with
    same_file: str
    nights: tuple[NightRow, ...]
    sizes: Chart | None
    times: Chart | None


def lay_out_cell(
    cell: str, history: History, shown: int, evidence: CellEvidence, commit: Link | None = None
) -> CellPage:
    """Return the page of a cell, with ``shown`` nights in its table."""
    rows = history.cells[cell]
    row = rows[history.last]
    nights = [rows[night] for night in history.nights[-shown:] if night in rows]
    since, known = history.find_since(row)
    good = history.find_last_good(cell)
    is_well = row.state in GOOD
    return CellPage(
        cell=format_text(cell, 200),
        project=format_text(row.project),
        state=row.state.value,
        letter=MARKS[row.state],
        tone=TONES[row.state],
        since="" if is_well else format_since(since, history.last, known=known),
        summary=format_text(row.reason, 500),
        cause="" if _is_check(history, row) else _format_cause(row),
        facts=(*_facts(row), ("Ran on", _name_systems(evidence))),
        axes=tuple(_axes(row)),
        commit=commit,
        evidence=evidence,
        compared=f"{format_text(good.version, 60)}, which passed on {good.night}" if good else "",
        same_file=_format_same_file(row, good) if not is_well else "",
        nights=tuple(_fold_repeats(reversed([*_nights(history, nights)]))),
        sizes=_draw_sizes(history, nights),
        times=draw_line(
            [(row.night, row.seconds) for row in nights if row.seconds],
            format_seconds,
            durations=True,
        ),
    )


def _axes(row: CellNight) -> Iterator[tuple[str, str]]:
    for name, value in zip(AXES, row.axes, strict=False):
        if value and name != "project":
            yield name.replace("_", " "), format_text(value)


def _is_check(history: History, row: CellNight) -> bool:
    """Return whether the cause is a failed check, whose problems the page shows anyway."""
    return row.cause in {each.check for each in history.failures.get((row.cell, row.night), ())}


def _format_cause(row: CellNight) -> str:
    """Return the cause, the line that showed the cause, and the remedy."""
    if not row.cause:
        return ""
    kind = f" ({row.cause_kind})" if row.cause_kind and row.cause_kind != row.cause else ""
    text = format_text(f"{row.cause}{kind}{f': {row.evidence}' if row.evidence else ''}", 400)
    advice = shipped_causes().advice_on(row.cause)
    return f"{text}. What to do: {advice}" if advice else text


def _format_same_file(row: CellNight, good: CellNight | None) -> str:
    if good is None:
        return "No earlier night is known in which this cell passed."
    if row.sha256 and good.sha256 == row.sha256:
        return f"The same file passed on {good.night}: its environment or its requirements changed."
    return ""


def _facts(row: CellNight) -> Iterator[tuple[str, str]]:
    yield "File", format_text(row.file_name, 200)
    yield "Version", format_text(row.version)
    yield "SHA-256", format_text(row.sha256)
    yield "Size", format_size(row.size) if row.size else ""
    yield "Uploaded", format_text(row.uploaded)
    yield "From", format_text(row.url, 200)
    yield "Place", format_text(row.place)
    yield "Took", format_seconds(row.seconds) if row.seconds else ""
    yield "Memory", format_size(row.peak_memory) if row.peak_memory else ""
    yield "Attempts", str(row.attempts) if row.attempts > 1 else ""


def _name_systems(evidence: CellEvidence) -> str:
    named = (name for stage in evidence.stages for name in stage.systems)
    return ", ".join(dict.fromkeys(named))


def _nights(history: History, nights: list[CellNight]) -> Iterator[NightRow]:
    """Yield the rows, oldest first."""
    before = ""
    for row in nights:
        yield NightRow(
            night=row.night,
            letter=MARKS[row.state],
            tone="" if row.state is CellState.PASSED else TONES[row.state],
            state=row.state.value,
            version=format_text(row.version, 60),
            is_new=bool(before and row.sha256 and row.sha256 != before),
            size=format_size(row.size) if row.size else "",
            seconds=format_seconds(row.seconds) if row.seconds else "",
            summary=_sum_up(history, row),
        )
        before = row.sha256 or before


def _fold_repeats(nights: Iterable[NightRow]) -> Iterator[NightRow]:
    """Yield the rows, with a text that repeats the row before replaced by "the same"."""
    text = ""
    for row in nights:
        repeats = len(row.summary) > len(_SAME) and row.summary == text
        text = row.summary
        yield replace(row, summary=_SAME) if repeats else row


def _sum_up(history: History, row: CellNight) -> str:
    """Return the problem of one night, in one line."""
    if row.state in GOOD:
        return count(row.accepted, "accepted problem") if row.accepted else ""
    found = history.failures.get((row.cell, row.night), ())
    if not found:
        return format_text(row.reason or row.cause, 200)
    more = len({each.check for each in found}) - 1
    first = found[0]
    return format_text(f"{first.check}: {first.summary}", 200) + (
        f" (and {count(more, 'check')})" if more else ""
    )


def _draw_sizes(history: History, nights: list[CellNight]) -> Chart | None:
    """Draw the installed size by part if it is known for every file, else the file's size."""
    sized = [row for row in nights if row.size]
    if sized and all(row.sha256 in history.parts for row in sized):
        return draw_stacks([(row.night, _name_parts(history, row)) for row in sized], format_size)
    return draw_line([(row.night, float(row.size)) for row in sized], format_size)


def _name_parts(history: History, row: CellNight) -> dict[str, float]:
    return {format_text(part, 40): float(size) for part, size in history.parts[row.sha256].items()}


# The trends: numbers of cells with trouble, file sizes, and durations.

_NAMED = 8  # cells in each list of the slowest and the largest


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectTrends:
    """Charts of one project, or of all; None for a chart without values."""

    name: str
    anchor: str
    cells: int
    states: Chart | None
    size: Chart | None
    time: Chart | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendsPage:
    """Charts of all projects together, and of each project."""

    whole: tuple[tuple[str, Chart], ...]
    ranked: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]  # title -> (cell, page, value)
    projects: tuple[ProjectTrends, ...]


def lay_out_trends(history: History, shown: int) -> TrendsPage:
    """Return the trends of the last ``shown`` nights."""
    nights = history.nights[-shown:]
    by_project: dict[str, list[CellNight]] = {}
    for rows in history.cells.values():
        for night in nights:
            if night in rows:
                by_project.setdefault(rows[night].project, []).append(rows[night])
    every = [row for rows in by_project.values() for row in rows]
    last = [row for row in every if row.night == history.last]
    labels = _label_all(history)
    whole = _draw("", every, nights)
    charts = (
        ("Cells that were not well", whole.states),
        ("Size of all files", whole.size),
        ("Time that all cells took", whole.time),
    )
    ranked = (
        ("Slowest tonight", _rank(last, labels, lambda row: row.seconds, format_seconds)),
        ("Largest tonight", _rank(last, labels, lambda row: row.size, format_size)),
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
    alone = not project  # dozens of charts with tooltips would make the page too large
    states = [(night, [row.state for row in rows]) for night, rows in by_night.items()]
    return ProjectTrends(
        name=format_text(project),
        anchor=f"project-{name_file(project)}",
        cells=max(map(len, by_night.values())),
        states=draw_states(states, titled=alone),
        size=_add_up(by_night, lambda row: row.size, format_size, titled=alone),
        time=_add_up(
            by_night, lambda row: row.seconds, format_seconds, titled=alone, durations=True
        ),
    )


def _add_up(
    by_night: Mapping[str, Iterable[CellNight]],
    measure: Callable[[CellNight], float],
    format_number: Callable[[float], str],
    *,
    titled: bool,
    durations: bool = False,
) -> Chart | None:
    """Draw the sum of each night, leaving out nights in which nothing was measured."""
    sums = [(night, sum(map(measure, rows))) for night, rows in by_night.items()]
    return draw_line(
        [each for each in sums if each[1]], format_number, titled=titled, durations=durations
    )


def _rank(
    rows: Iterable[CellNight],
    labels: Mapping[str, str],
    measure: Callable[[CellNight], float],
    format_number: Callable[[float], str],
) -> tuple[tuple[str, str, str], ...]:
    found = sorted((row for row in rows if measure(row)), key=lambda row: (-measure(row), row.cell))
    return tuple(
        (link.text, link.href, format_number(measure(row)))
        for row in found[:_NAMED]
        for link in (name_cell(row, labels),)
    )
