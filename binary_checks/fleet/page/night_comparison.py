"""A night compared with earlier nights: newly broken, still broken, fixed, missing, not judged.

The index page, the mail and the feed present the same `Morning`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from binary_checks.fleet.night import GOOD, WELL
from binary_checks.fleet.page.history import CellNight, FailedCheck, History
from binary_checks.fleet.page.naming import TONES, format_projects, format_since, format_text
from binary_checks.fleet.page.night_reading import Remarks
from binary_checks.model import CellState
from binary_checks.reports.markdown import format_code
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import LONGEST


@dataclass(frozen=True, kw_only=True, slots=True)
class TroubledCell:
    """A cell that has trouble, or that was fixed."""

    row: CellNight
    since: str  # the night in which the trouble began
    known_before: bool = True  # whether an earlier night proves that it began then
    last_good: CellNight | None = None
    found: FailedCheck | None = None  # the failed check
    cause: str = ""  # the cause if no check failed


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakage:
    """One check that fails in cells of one project or of several: probably one fault."""

    projects: tuple[str, ...]
    check: str  # "" if no check failed
    summary: str  # the first cell's sentence
    cause: str
    sentences: int  # number of different sentences
    cells: tuple[TroubledCell, ...]  # by night of beginning, then by name

    @property
    def since(self) -> str:
        """The night in which the first cell broke."""
        return min(cell.since for cell in self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Morning:
    """One night, compared with the nights before."""

    night: str
    before: str  # the night before, or ""
    total: int
    counts: Mapping[CellState, int]
    broke: tuple[Breakage, ...]  # with most cells first
    still: tuple[Breakage, ...]  # the oldest first
    mended: tuple[TroubledCell, ...]
    others: Mapping[CellState, tuple[TroubledCell, ...]]  # states other than passed and failed
    # (project, old version, new version) -> number of cells
    updates: Mapping[tuple[str, str, str], int]
    gone: tuple[str, ...]  # cells of the night before that are no longer planned
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def is_well(self) -> bool:
        """Whether every cell was judged and passed."""
        return all(state in WELL for state in self.counts)


def look_back(history: History, remarks: Remarks | None = None) -> Morning:
    """Compare the history's last night with the nights before."""
    tonight = list(history.tonight())
    fresh, old = list[TroubledCell](), list[TroubledCell]()
    for row in tonight:
        if row.state is CellState.FAILED:
            for cell, is_new in _judge(history, row):
                (fresh if is_new else old).append(cell)
    before = history.nights[-2] if len(history.nights) > 1 else ""
    return Morning(
        night=history.last,
        before=before,
        total=len(tonight),
        counts=Counter(row.state for row in tonight),
        broke=tuple(
            sorted(_group(fresh), key=lambda each: (-len(each.cells), each.projects, each.check))
        ),
        still=tuple(sorted(_group(old), key=lambda each: (each.since, each.projects, each.check))),
        mended=tuple(_find_mended(history, tonight)),
        others=_find_others(history, tonight),
        updates=_find_updates(history, tonight, before),
        gone=tuple(
            cell
            for cell, rows in history.cells.items()
            if before in rows and history.last not in rows
        ),
        remarks=remarks or Remarks(),
    )


def _judge(history: History, row: CellNight) -> Iterator[tuple[TroubledCell, bool]]:
    """Yield each check that a cell fails, and whether it is new since the cell was last judged."""
    last = history.find_last_decided(row.cell)
    failing = last is not None and last.state is CellState.FAILED
    then = {each.check for each in _failures(history, last)} if last and failing else set()
    since, known = history.find_since(row)
    good = history.find_last_good(row.cell)
    every = history.failures.get((row.cell, row.night), ())
    named = row.cause in {"unknown", *(each.check for each in every)}
    for found in _failures(history, row):
        is_new = not failing or found.check not in then
        yield (
            TroubledCell(
                row=row,
                since=row.night if is_new else since,
                known_before=known or (is_new and failing),
                last_good=good,
                found=found,
                cause="" if named else row.cause,
            ),
            is_new,
        )


def _failures(history: History, row: CellNight) -> tuple[FailedCheck, ...]:
    """Return the checks that the cell failed, or a check without a name if no check failed."""
    found = history.failures.get((row.cell, row.night), ())
    if row.night == history.last and row.cell in history.leading:
        leading = history.leading[row.cell]
        found = tuple(each for each in found if each.check in leading) or found
    named = {each.check: each for each in reversed(found) if each.outcome != "error"}
    return tuple(reversed(named.values())) or (FailedCheck(check="", reason=row.reason),)


def _group(cells: Iterable[TroubledCell]) -> Iterator[Breakage]:
    """Yield cells grouped by project and check; projects with the same sentence are joined."""
    groups: dict[tuple[str, str], list[TroubledCell]] = {}
    for cell in cells:
        check = cell.found.check if cell.found else ""
        groups.setdefault((cell.row.project, check), []).append(cell)
    merged: dict[tuple[str, str], list[TroubledCell]] = {}
    for (_, check), members in sorted(groups.items()):
        members.sort(key=lambda each: (each.since, each.row.cell))
        merged.setdefault((check, _describe(members[0])), []).extend(members)
    for (check, first), members in merged.items():
        members.sort(key=lambda each: (each.since, each.row.cell))
        texts = [_describe(each) for each in members]
        yield Breakage(
            projects=tuple(sorted({each.row.project for each in members})),
            check=check,
            summary=first,
            cause=members[0].cause,
            sentences=len({*texts}),
            cells=tuple(members),
        )


def _describe(cell: TroubledCell) -> str:
    return cell.found.summary if cell.found else cell.row.reason


def _find_mended(history: History, tonight: Iterable[CellNight]) -> Iterator[TroubledCell]:
    """Yield cells that pass now, but failed when they were last judged."""
    for row in tonight:
        last = history.find_last_decided(row.cell) if row.state in GOOD else None
        if last is not None and last.state is CellState.FAILED:
            since, known = history.until(last.night).find_since(last)
            yield TroubledCell(row=row, since=since, known_before=known)


def _find_others(
    history: History, tonight: Iterable[CellNight]
) -> dict[CellState, tuple[TroubledCell, ...]]:
    """Return the cells in states other than passed and failed, by state, the newest first."""
    found: dict[CellState, list[TroubledCell]] = {}
    for row in tonight:
        if row.state not in GOOD and row.state is not CellState.FAILED:
            since, known = history.find_since(row)
            good = history.find_last_good(row.cell)
            cell = TroubledCell(row=row, since=since, known_before=known, last_good=good)
            found.setdefault(row.state, []).append(cell)
    for cells in found.values():
        cells.sort(key=lambda each: each.row.cell)
        cells.sort(key=lambda each: each.since, reverse=True)
    return {state: tuple(found[state]) for state in CellState if state in found}


def _find_updates(
    history: History, tonight: Iterable[CellNight], before: str
) -> dict[tuple[str, str, str], int]:
    """Return (project, old version, new version) -> number of cells updated since ``before``."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in tonight:
        then = history.cells[row.cell].get(before)
        if then and then.version and row.version and then.version != row.version:
            found[row.project, then.version, row.version] += 1
    return dict(sorted(found.items()))


# Wording that the page, the mail and the feed share.

OTHERS: Mapping[CellState, tuple[str, str]] = {
    CellState.MISSING: ("Nothing is published", "Missing"),
    CellState.STALE: ("Too old", "Too old"),
    CellState.LOST: ("No result", "No result"),
    CellState.INFRA: ("The network, the disk or the host broke", "Infra"),
    CellState.NOT_JUDGED: ("Not judged", "Not judged"),
    CellState.FLAKY: ("Failed, then passed on the same bytes", "Flaky"),
    CellState.BLOCKED: ("GPU stage waits for a CPU stage that passes", "GPU waits"),
}
"""State -> its title on the page and in a mail, in the order in which they are shown."""
_NAMED = 5  # cells that a line names


def entitle(morning: Morning) -> str:
    """Return one sentence about the night."""
    if not morning.total:
        return "No cell was planned"
    if morning.broke:
        cells = {cell.row.cell for each in morning.broke for cell in each.cells}
        checks = {each.check for each in morning.broke}
        return f"{count(len(checks), 'check')} broke in {count(len(cells), 'cell')}"
    if failing := morning.counts.get(CellState.FAILED, 0):
        fails = "fails" if failing == 1 else "fail"
        return f"Nothing new broke; {count(failing, 'cell')} still {fails}"
    if morning.is_well:
        return f"All is well in {count(morning.total, 'cell')}"
    unjudged = sum(number for state, number in morning.counts.items() if state not in WELL)
    return f"Nothing broke; {count(unjudged, 'cell')} could not be judged"


def tally(counts: Mapping[CellState, int]) -> tuple[tuple[str, str, str], ...]:
    """Return (tone, number, word) for each state."""
    return tuple(
        (TONES[state], f"{counts[state]:,}", state.value)
        for state in CellState
        if counts.get(state)
    )


def list_notes(
    morning: Morning, names: Mapping[str, str] | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield title and lines of notes that are not about single cells.

    ``names`` maps the ids of departed cells to the names to show.
    """
    found = (
        ("New versions", tuple(_iter_updates(morning))),
        ("No longer in the matrix", tuple(_iter_gone(morning, names or {}))),
        *morning.remarks.by_title(),
    )
    return ((title, lines) for title, lines in found if lines)


def name_check(check: str) -> str:
    """Return the name of a check, or "no check" if none failed."""
    return format_text(check) or "no check"


def format_beginning(cell: TroubledCell, morning: Morning) -> str:
    """Return the night since which the cell has been in its state, in words."""
    return format_since(cell.since, morning.night, known=cell.known_before)


def _iter_updates(morning: Morning) -> Iterator[str]:
    """Yield a line for each new version."""
    for (project, before, now), cells in morning.updates.items():
        versions = f"{format_text(before, 40)} → {format_text(now, 40)}"
        yield f"{format_text(project)} {versions} in {count(cells, 'cell')}"


def _iter_gone(morning: Morning, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line about cells that are no longer planned."""
    if morning.gone:
        shown = (names.get(each, each) for each in morning.gone[:_NAMED])
        named = ", ".join(format_text(each, 120) for each in shown)
        more = len(morning.gone) - _NAMED
        others = f" and {more} more" if more > 0 else ""
        yield f"{count(len(morning.gone), 'cell')}: {named}{others}"


# The mail: a night in about forty lines of text or Markdown; in three if all cells passed.

_BROKE, _STILL, _LINES, _CELLS = 5, 4, 2, 3
"""Most newly broken checks, still broken checks, other lines, and named cells."""
_SENTENCE = 240  # characters


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """The format of a mail; ``code`` escapes markup in texts from outside."""

    head: str
    gap: Sequence[str]  # lines between two sections
    tally: str
    title: str
    bullet: str
    code: Callable[[str], str]


_TEXT = _Form(head="{}", gap=(), tally="  {}", title="{}:", bullet="  ", code=str)
_MARKDOWN = _Form(
    head="## {}", gap=("",), tally="{}", title="**{}:**", bullet="- ", code=format_code
)


def write_mail(morning: Morning, *, markdown: bool = False) -> Iterator[str]:
    """Yield the lines of the mail, as plain text or as Markdown."""
    form = _MARKDOWN if markdown else _TEXT
    yield form.head.format(f"{morning.night}: {entitle(morning)}")
    yield from form.gap
    yield form.tally.format(
        ", ".join(f"{number} {word}" for _, number, word in tally(morning.counts))
    )
    yield from _list_lines("Notice", morning.remarks.notices, form)
    yield from _list_breakages("Broke tonight", morning.broke[:_BROKE], morning, form)
    yield from _count_rest(morning.broke, _BROKE, form)
    yield from _list_breakages("Still broken", morning.still[:_STILL], morning, form, brief=True)
    yield from _count_rest(morning.still, _STILL, form)
    if morning.mended:
        yield from _entitle("Mended", _name_cells(morning.mended, "", form), form)
    for state, (_, title) in OTHERS.items():
        if cells := morning.others.get(state):
            oldest = min(cells, key=lambda each: each.since)
            since = f" {format_beginning(oldest, morning)}"
            yield from _entitle(title, _name_cells(cells, since, form), form)
    for title, lines in list_notes(morning):
        yield from _list_lines(title, lines, form)


def _entitle(title: str, text: str, form: _Form) -> Iterator[str]:
    yield from form.gap
    yield f"{form.title.format(title)} {text}".rstrip()


def _list_breakages(
    title: str, found: Sequence[Breakage], morning: Morning, form: _Form, *, brief: bool = False
) -> Iterator[str]:
    if found:
        yield from _entitle(title, "", form)
    for each in found:
        cause = f" ({format_text(each.cause)})" if each.cause else ""
        what = f"{format_projects(each.projects)}: {name_check(each.check)}{cause}"
        since = f" {format_beginning(each.cells[0], morning)}"
        where = _name_cells(each.cells, since, form, named=not brief)
        yield f"{form.bullet}{form.code(what)} in {where}"
        if each.summary and not brief:
            yield f"    {form.code(format_text(each.summary, _SENTENCE))}"


def _list_lines(title: str, lines: Iterable[str], form: _Form) -> Iterator[str]:
    texts = [form.code(format_text(each, LONGEST)) for each in lines]
    if len(texts) == 1:
        yield from _entitle(title, texts[0], form)
    elif texts:
        yield from _entitle(title, "", form)
        yield from (f"{form.bullet}{each}" for each in texts[:_LINES])
        yield from _count_rest(texts, _LINES, form)


def _count_rest(found: Sequence[object], shown: int, form: _Form) -> Iterator[str]:
    if len(found) > shown:
        yield f"{form.bullet}and {len(found) - shown:,} more"


def _name_cells(
    cells: Sequence[TroubledCell], since: str, form: _Form, *, named: bool = True
) -> str:
    number = f"{count(len(cells), 'cell')}{since}"
    if not named:
        return number
    names = ", ".join(format_text(each.row.cell, 120) for each in cells[:_CELLS])
    more = len(cells) - _CELLS
    return f"{number}: {form.code(f'{names} and {more} more' if more > 0 else names)}"
