"""A night compared with earlier nights, as the index page, the mail and the feed present it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binary_checks.fleet.page.naming import format_text, split
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
    ended: Row  # numbers of cells
    answers: Mapping[str, Sequence[Row]]  # by query
    notices: Sequence[str]
    notes: Mapping[str, Sequence[str]]  # title -> lines

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells in each state."""
        whole = (row for row in self.answers["states"] if row["project"] is None)
        return {row["state"]: row["cells"] for row in whole}

    @property
    def is_well(self) -> bool:
        """Whether every cell was judged and passed."""
        return not (self.ended["failed"] or self.ended["unjudged"])

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
        ended=next(view.ask("trends", rows=1)),
        answers={name: [*view.ask(name)] for name in _QUERIES},
        notices=view.notices,
        notes=view.notes,
    )


def write_mail(morning: Morning, *, markdown: bool = False) -> str:
    """Return a night in about forty lines of text or Markdown; in three if all cells passed."""
    return Templates().render(
        "mail.txt",
        morning=morning,
        notes=morning.list_notes({}),
        titles=OTHERS,
        markdown=markdown,
    )
