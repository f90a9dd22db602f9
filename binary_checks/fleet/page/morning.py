"""A night compared with earlier nights, as the index page, the mail and the feed present it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binary_checks.fleet.night import WELL
from binary_checks.fleet.page.naming import TONES, format_text, split
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.page.templates import Templates
from binary_checks.model import CellState
from binary_checks.reports.verdict_texts import count

OTHERS: Mapping[str, tuple[str, str]] = {
    CellState.MISSING.value: ("Nothing is published", "Missing"),
    CellState.STALE.value: ("Too old", "Too old"),
    CellState.LOST.value: ("No result", "No result"),
    CellState.INFRA.value: ("The network, the disk or the host broke", "Infra"),
    CellState.NOT_JUDGED.value: ("Not judged", "Not judged"),
    CellState.FLAKY.value: ("Failed, then passed on the same bytes", "Flaky"),
    CellState.BLOCKED.value: ("GPU stage waits for a CPU stage that passes", "GPU waits"),
}
"""State -> its title on the page and in a mail, in the order in which they are shown."""
_NAMED = 5  # cells that a line names
_QUERIES = (
    *("states", "newly-broken", "still-broken", "mended", "undecided", "new-versions"),
    "departed",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Morning:
    """The answers about one night that the index, the mail and the feed present."""

    night: str
    answers: Mapping[str, Sequence[Row]]  # by query
    notices: Sequence[str]
    notes: Mapping[str, Sequence[str]]  # title -> lines

    @property
    def counts(self) -> Counter[CellState]:
        """The number of cells in each state."""
        return count_states(self.answers["states"])

    @property
    def is_well(self) -> bool:
        """Whether every cell was judged and passed."""
        return all(state in WELL for state in self.counts)

    @property
    def title(self) -> str:
        """One sentence about the night."""
        counts = self.counts
        if not counts:
            return "No cell was planned"
        if broke := self.answers["newly-broken"]:
            cells = {cell for each in broke for cell in each["cells"]}
            checks = {each["check_id"] for each in broke}
            return f"{count(len(checks), 'check')} broke in {count(len(cells), 'cell')}"
        if failing := counts[CellState.FAILED]:
            fails = "fails" if failing == 1 else "fail"
            return f"Nothing new broke; {count(failing, 'cell')} still {fails}"
        if self.is_well:
            return f"All is well in {count(counts.total(), 'cell')}"
        unjudged = sum(number for state, number in counts.items() if state not in WELL)
        return f"Nothing broke; {count(unjudged, 'cell')} could not be judged"

    @property
    def tone(self) -> str:
        """The tone of the whole night."""
        if self.counts[CellState.FAILED]:
            return "bad"
        return "good" if self.is_well and self.counts else "mild"

    def list_notes(self, names: Mapping[str, str]) -> dict[str, Sequence[str]]:
        """Return title -> lines of notes that are not about single cells.

        ``names`` maps cells to the names to show instead of their ids.
        """
        versions = [
            f"{format_text(each['project'])} {format_text(each['version_before'], 40)} → "
            f"{format_text(each['version'], 40)} in {count(each['cells'], 'cell')}"
            for each in self.answers["new-versions"]
        ]
        gone = [each["cell"] for each in self.answers["departed"]]
        shown, others = split([format_text(names.get(each, each), 120) for each in gone], _NAMED)
        more = f" and {len(others)} more" if others else ""
        departed = [f"{count(len(gone), 'cell')}: {', '.join(shown)}{more}"] if gone else []
        found = {"New versions": versions, "No longer in the matrix": departed, **self.notes}
        return {title: lines for title, lines in found.items() if lines}


def read_morning(view: NightView) -> Morning:
    """Ask how a night ended, compared with the nights before."""
    return Morning(
        night=view.night,
        answers={name: [*view.ask(name)] for name in _QUERIES},
        notices=view.notices,
        notes=view.notes,
    )


def count_states(rows: Sequence[Row]) -> Counter[CellState]:
    """Return the number of cells in each state, in the order of the states."""
    counts = Counter[CellState]()
    for state in CellState:
        if number := sum(row["cells"] for row in rows if row["state"] == state.value):
            counts[state] = number
    return counts


def tally(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return (tone, number, word) for each state."""
    counts = count_states(rows)
    return [(TONES[state], f"{number:,}", state.value) for state, number in counts.items()]


def write_mail(morning: Morning, *, markdown: bool = False) -> str:
    """Return a night in about forty lines of text or Markdown; in three if all cells passed."""
    return Templates().render(
        "mail.txt",
        morning=morning,
        tally=tally(morning.answers["states"]),
        notes=morning.list_notes({}),
        titles=OTHERS,
        markdown=markdown,
    )
