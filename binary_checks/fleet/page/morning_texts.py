"""A morning in words that the page, the mail and the feed share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.fleet.page.morning import Morning, TroubledCell
from binary_checks.fleet.page.naming import TONES, spell, spell_since
from binary_checks.fleet.states import WELL, CellState
from binary_checks.reports.verdict_texts import count

OTHERS: Mapping[CellState, tuple[str, str]] = {
    CellState.MISSING: ("Nothing is published", "Missing"),
    CellState.STALE: ("Too old", "Too old"),
    CellState.LOST: ("No result", "No result"),
    CellState.INFRA: ("The network, the disk or the host broke", "Infra"),
    CellState.NOT_JUDGED: ("Not judged", "Not judged"),
    CellState.FLAKY: ("Failed, then passed on the same bytes", "Flaky"),
    CellState.BLOCKED: ("GPU stage waits for a CPU stage that passes", "GPU waits"),
}
"""What cells that neither pass nor fail stand under, and in a mail; in that order."""
_NAMED = 5  # cells that a line names


def entitle(morning: Morning) -> str:
    """The night in one sentence."""
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
    """How many cells ended how: tone, number and word."""
    return tuple(
        (TONES[state], f"{counts[state]:,}", state.value)
        for state in CellState
        if counts.get(state)
    )


def list_notes(morning: Morning) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What there is to be said beside the cells: titles, and lines."""
    found = (
        ("New versions", tuple(_spell_updates(morning))),
        ("No longer in the matrix", tuple(_spell_gone(morning))),
        *morning.remarks.by_title(),
    )
    return ((title, lines) for title, lines in found if lines)


def name_check(check: str) -> str:
    """A check, or that none could say what failed."""
    return spell(check) or "no check"


def spell_beginning(cell: TroubledCell, morning: Morning) -> str:
    """Since when the cell is as it is."""
    return spell_since(cell.since, morning.night, known=cell.known_before)


def _spell_updates(morning: Morning) -> Iterator[str]:
    """Which versions are new."""
    for (project, before, now), cells in morning.updates.items():
        yield f"{spell(project)} {spell(before, 40)} → {spell(now, 40)} in {count(cells, 'cell')}"


def _spell_gone(morning: Morning) -> Iterator[str]:
    """Which cells of the night before nobody looked at in this one."""
    if morning.gone:
        named = ", ".join(spell(each, 120) for each in morning.gone[:_NAMED])
        more = len(morning.gone) - _NAMED
        others = f" and {more} more" if more > 0 else ""
        yield f"{count(len(morning.gone), 'cell')}: {named}{others}"
