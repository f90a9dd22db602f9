"""What one wants to know in the morning: broke, still broken, mended, not there, and not judged.

The index, the mail and the feed show the same view of it, each in its own form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from binary_checks.fleet.page.history import CellNight, FailedCheck, History
from binary_checks.fleet.page.remarks import Remarks
from binary_checks.fleet.states import GOOD, WELL, CellState


@dataclass(frozen=True, kw_only=True, slots=True)
class TroubledCell:
    """A cell that is not well, or no longer unwell."""

    row: CellNight
    since: str  # a night
    known_before: bool = True  # whether an earlier night is known to be without it
    last_good: CellNight | None = None
    found: FailedCheck | None = None  # of a check that fails
    cause: str = ""  # where it is not one of the checks that fail


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakage:
    """One check that fails in some cells, of one project or alike in several: likely one fault."""

    projects: tuple[str, ...]
    check: str  # "" where no check could say it
    said: str  # the first cell's sentence
    cause: str
    sentences: int  # different ones
    cells: tuple[TroubledCell, ...]  # by since, then name

    @property
    def since(self) -> str:
        """The night of the first."""
        return min(cell.since for cell in self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Morning:
    """One night, held against those before."""

    night: str
    before: str  # the night before; "" for none
    total: int
    counts: Mapping[CellState, int]
    broke: tuple[Breakage, ...]  # those of most cells first
    still: tuple[Breakage, ...]  # the oldest first
    mended: tuple[TroubledCell, ...]
    others: Mapping[CellState, tuple[TroubledCell, ...]]  # neither passed nor failed
    updates: Mapping[tuple[str, str, str], int]  # cells by project, version before, version now
    gone: tuple[str, ...]  # cells of the night before that this one lacks
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def is_well(self) -> bool:
        """Whether every cell was judged and passed, as far as this night could tell."""
        return all(state in WELL for state in self.counts)


def look_back(history: History, remarks: Remarks | None = None) -> Morning:
    """What the last night of the history brought."""
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
    """The checks that a cell fails, each with whether it failed when the cell was last judged."""
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
    """The checks that the cell failed; one without a name where none could say it."""
    found = history.failures.get((row.cell, row.night), ())
    if row.night == history.last and row.cell in history.leading:
        leading = history.leading[row.cell]
        found = tuple(each for each in found if each.check in leading) or found
    named = {each.check: each for each in reversed(found) if each.outcome != "error"}
    return tuple(reversed(named.values())) or (FailedCheck(check="", reason=row.reason),)


def _group(cells: Iterable[TroubledCell]) -> Iterator[Breakage]:
    """Cells of one project that fail one check; where projects say the very same, all of them."""
    groups: dict[tuple[str, str], list[TroubledCell]] = {}
    for cell in cells:
        check = cell.found.check if cell.found else ""
        groups.setdefault((cell.row.project, check), []).append(cell)
    merged: dict[tuple[str, str], list[TroubledCell]] = {}
    for (_, check), members in sorted(groups.items()):
        members.sort(key=lambda each: (each.since, each.row.cell))
        merged.setdefault((check, _said(members[0])), []).extend(members)
    for (check, first), members in merged.items():
        members.sort(key=lambda each: (each.since, each.row.cell))
        said = [_said(each) for each in members]
        yield Breakage(
            projects=tuple(sorted({each.row.project for each in members})),
            check=check,
            said=first,
            cause=members[0].cause,
            sentences=len({*said}),
            cells=tuple(members),
        )


def _said(cell: TroubledCell) -> str:
    return cell.found.said if cell.found else cell.row.reason


def _find_mended(history: History, tonight: Iterable[CellNight]) -> Iterator[TroubledCell]:
    """Cells that pass, and failed when they were last judged."""
    for row in tonight:
        last = history.find_last_decided(row.cell) if row.state in GOOD else None
        if last is not None and last.state is CellState.FAILED:
            since, known = history.until(last.night).find_since(last)
            yield TroubledCell(row=row, since=since, known_before=known)


def _find_others(
    history: History, tonight: Iterable[CellNight]
) -> dict[CellState, tuple[TroubledCell, ...]]:
    """The cells in states that neither pass nor fail, the newest first."""
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
    """Which projects have another version than the night before, and in how many cells."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in tonight:
        then = history.cells[row.cell].get(before)
        if then and then.version and row.version and then.version != row.version:
            found[row.project, then.version, row.version] += 1
    return dict(sorted(found.items()))
