"""Names of the site's files, and the wording of cells, states and durations on its pages."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from binary_checks.fleet.night import AXES, LETTERS
from binary_checks.model import CellState
from binary_checks.reports.html.templating import shorten
from binary_checks.safe_text import one_line

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
"""State -> tone; red marks only faults of packages."""
MARKS: Mapping[CellState, str] = {**LETTERS, CellState.PASSED: "P"}
"""State -> letter; the dot for passed cells in texts would be lost on a coloured ground."""
LEGEND = tuple((MARKS[state], TONES[state], state.value) for state in CellState)


def name_file(name: str) -> str:
    """Return a name for files and addresses: the name itself, or a digest of an unusual one."""
    return name if _PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:40]


def name_cell_page(cell: str) -> str:
    """Return the path of a cell's page in the site."""
    return f"cells/{name_file(cell)}.html"


def name_checks(check: str) -> str:
    """Return the address of a check's description in the site."""
    return f"checks.html#{quote(one_line(check))}"  # as `urlencode` does in the templates


def name_commit_page(commit: str) -> str:
    """Return the path of a commit's page in the site."""
    return f"commits/{commit}.html"


def name_pull_page(number: str) -> str:
    """Return the path of a pull request's page in the site."""
    return f"pulls/{number}.html"


def label_cells(matrix: Iterable[Mapping[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return cell -> label beside its project's name, and cell -> label with that name.

    A label has the values of the axes in which cells differ, or all values. A cell that has the
    same label as another one of its project is called by its id.
    """
    rows = {row["cell"]: {axis: row[axis] for axis in AXES} for row in matrix}
    found = label_by_difference(
        {cell: {axis: axes[axis] for axis in AXES[1:]} for cell, axes in rows.items()}
    )
    times = Counter((rows[cell]["project"], label) for cell, label in found.items())
    labels, names = {}, {}
    for cell, label in found.items():
        project = rows[cell]["project"]
        unique = label and times[project, label] == 1
        labels[cell] = format_text(label if unique else cell)
        named = labels[cell].startswith(format_text(project))
        names[cell] = labels[cell] if named else f"{format_text(project)} {labels[cell]}"
    return labels, names


def label_by_difference(axes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return name -> label for names with axes: the values of the axes in which they differ.

    If they differ in none, labels have the values of all axes.
    """
    every = dict.fromkeys(axis for row in axes.values() for axis in row)
    differing = [axis for axis in every if len({row.get(axis) or "" for row in axes.values()}) > 1]
    return {
        name: " ".join(
            f"py{value}" if axis == "python" else value  # 3.12 alone could be a version
            for axis in differing or every
            if (value := row.get(axis) or "")
        )
        for name, row in axes.items()
    }


def format_text(text: str | None, longest: int = _LONGEST) -> str:
    """Return a text from outside as one printable line of limited length."""
    return shorten(one_line(text or ""), longest)


def format_projects(projects: Sequence[str]) -> str:
    """Return the project's name, or how many projects there are."""
    return format_text(projects[0]) if len(projects) == 1 else f"{len(projects)} projects"


def format_seconds(seconds: float) -> str:
    """Return a duration: "9.5 s", "42 s", "12 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def format_since(row: Mapping[str, Any], night: str) -> str:
    """Return since when a row's state, or its first cell's, has lasted."""
    since, known = row["since"], row["known"]
    if since == night:
        return "since tonight" if known else "in the first night"
    return f"since {since}" if known else f"since {since} or earlier"


def split(found: Sequence[Any], most: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what is shown, and the rest, which is never one alone: its line can show that one."""
    shown = most if len(found) > most + 1 else len(found)
    return found[:shown], found[shown:]
