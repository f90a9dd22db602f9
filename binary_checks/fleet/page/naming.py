"""Where everything of the site lies, and how cells, states and spans of time are spelled on it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from binary_checks.fleet.night import AXES, LETTERS
from binary_checks.fleet.page.history import CellNight
from binary_checks.lines import one_line
from binary_checks.model.outcomes import CellState
from binary_checks.reports.html.templating import shorten

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,180}")
_LONGEST = 90  # characters of a label
TONES: Mapping[CellState, str] = {
    CellState.PASSED: "ok",
    CellState.KNOWN: "known",
    CellState.FAILED: "bad",
    CellState.FLAKY: "mild",
    CellState.NOT_JUDGED: "mild",
    CellState.INFRA: "mild",
    CellState.LOST: "mild",
    CellState.BLOCKED: "quiet",
    CellState.STALE: "mild",
    CellState.MISSING: "mild",
}
"""How pages mark each state: red is for what is wrong with a package, and for nothing else."""
LEGEND = tuple((LETTERS[state], TONES[state], state.value) for state in CellState)


def name_file(name: str) -> str:
    """The name as part of a file's, and of an address: itself, or a digest of one that is odd."""
    return name if _PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:40]


def name_cell_page(cell: str) -> str:
    """The page of a cell, below the site's folder."""
    return f"cells/{name_file(cell)}.html"


def name_checks(check: str) -> str:
    """A check's place among the explanations, below the site's folder."""
    return f"checks.html#{quote(one_line(check))}"  # as the templates have it with `urlencode`


def label_cells(rows: Iterable[CellNight]) -> dict[str, str]:
    """The cells of one project by the axes in which they differ, or by id where two are alike."""
    rows = list(rows)
    differing = [
        index for index in range(1, len(AXES)) if len({_axis(row, index) for row in rows}) > 1
    ]
    labels = {
        row.cell: " ".join(filter(None, (_axis(row, index) for index in differing))) for row in rows
    }
    if len({*labels.values()}) < len(labels) or "" in labels.values():
        return {row.cell: spell(row.cell) for row in rows}
    return {cell: spell(label) for cell, label in labels.items()}


def _axis(row: CellNight, index: int) -> str:
    value = row.axes[index] if index < len(row.axes) else ""
    return f"py{value}" if value and AXES[index] == "python" else value  # 3.12 may be a version


def spell(text: str, longest: int = _LONGEST) -> str:
    """A text from outside, in one line that does no harm and does not run on."""
    return shorten(one_line(text), longest)


def spell_projects(projects: Sequence[str]) -> str:
    """The project, or how many there are."""
    return spell(projects[0]) if len(projects) == 1 else f"{len(projects)} projects"


def spell_seconds(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def spell_since(since: str, night: str, *, known: bool) -> str:
    """Since when something is as it is; ``known`` is whether it is known to have begun then."""
    if since == night:
        return "since tonight" if known else "in the first night"
    return f"since {since}" if known else f"since {since} or earlier"
