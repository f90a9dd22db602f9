"""A night compared with earlier nights, as the index page, the mail and the feed present it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from binary_checks.fleet.night import WELL
from binary_checks.fleet.page.naming import TONES, format_text
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.page.remarks import Remarks
from binary_checks.fleet.page.templates import Templates
from binary_checks.model import CellState
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
"""State -> its title on the page and in a mail, in the order in which they are shown."""
_NAMED = 5  # cells that a line names


@dataclass(frozen=True, kw_only=True, slots=True)
class Morning:
    """The answers about one night that the index, the mail and the feed present."""

    night: str
    states: Sequence[Row]  # number of cells by project and state
    broke: Sequence[Row]  # faults
    still: Sequence[Row]
    mended: Sequence[Row]
    others: Mapping[CellState, Sequence[Row]]  # cells that neither passed nor failed
    versions: Sequence[Row]
    departed: Sequence[Row]
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def counts(self) -> Counter[CellState]:
        """The number of cells in each state."""
        return count_states(self.states)

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
        if self.broke:
            cells = {cell for each in self.broke for cell in each["cells"]}
            checks = {each["check_id"] for each in self.broke}
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
        return "good" if self.is_well and self.states else "mild"

    def list_notes(self, names: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
        """Return title and lines of notes that are not about single cells.

        ``names`` maps cells to the names to show instead of their ids.
        """
        found = (
            ("New versions", [*self._list_versions()]),
            ("No longer in the matrix", [*self._list_departed(names)]),
            *self.remarks.by_title(),
        )
        return [(title, lines) for title, lines in found if lines]

    def _list_versions(self) -> Iterator[str]:
        for each in self.versions:
            before, now = (format_text(each[name], 40) for name in ("version_before", "version"))
            project, cells = format_text(each["project"]), count(each["cells"], "cell")
            yield f"{project} {before} → {now} in {cells}"

    def _list_departed(self, names: Mapping[str, str]) -> Iterator[str]:
        cells = [format_text(names.get(each["cell"], each["cell"]), 120) for each in self.departed]
        if cells:
            more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED + 1 else ""
            shown = cells[:_NAMED] if more else cells
            yield f"{count(len(cells), 'cell')}: {', '.join(shown)}{more}"


def read_morning(view: NightView) -> Morning:
    """Ask how a night ended, compared with the nights before."""
    others = {
        state: [*of] for state, of in groupby(view.ask("undecided"), lambda row: row["state"])
    }
    return Morning(
        night=view.night,
        states=[*view.ask("states")],
        broke=[*view.ask("newly-broken")],
        still=[*view.ask("still-broken")],
        mended=[*view.ask("mended")],
        others={state: others[state.value] for state in OTHERS if state.value in others},
        versions=[*view.ask("new-versions")],
        departed=[*view.ask("departed")],
        remarks=view.remarks,
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
        tally=tally(morning.states),
        notes=morning.list_notes({}),
        titles=OTHERS,
        markdown=markdown,
    )
