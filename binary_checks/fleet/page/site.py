"""All files of the site, made from a history and from what the store keeps of broken cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from binary_checks.fleet.page.badges import draw_cell_badge, draw_project_badge
from binary_checks.fleet.page.cell_page import lay_out_cell
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.feed import find_mornings, write_feed
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.index_page import (
    fold,
    lay_out_index,
    link_cells,
    spell_change,
)
from binary_checks.fleet.page.morning import look_back
from binary_checks.fleet.page.morning_texts import (
    OTHERS,
    entitle,
    list_notes,
    name_check,
    spell_beginning,
    tally,
)
from binary_checks.fleet.page.naming import (
    LEGEND,
    TONES,
    name_cell_page,
    name_checks,
    name_file,
    spell,
    spell_projects,
)
from binary_checks.fleet.page.remarks import Remarks
from binary_checks.fleet.page.trends_page import lay_out_trends
from binary_checks.fleet.states import GOOD, LETTERS, CellState
from binary_checks.lines import one_line
from binary_checks.model import CheckText
from binary_checks.reports.verdict_texts import count

INDEX = "index.html"
_WORDS = (
    count,
    entitle,
    fold,
    link_cells,
    list_notes,
    name_check,
    name_checks,
    spell,
    spell_change,
    spell_projects,
    tally,
)
"""What the templates say in words."""
Read = Callable[[CellNight, CellNight | None, bool], CellEvidence]
"""Of a cell's last night and its last good one, and whether all is wanted: what the store keeps."""


def make_site(
    history: History, read: Read, *, shown: int, remarks: Remarks | None = None, base: str = ""
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file; the index is the last, for it leads to all others."""
    draw = _Templates()
    morning = look_back(history, remarks)
    texts: dict[str, CheckText] = {}
    for row in sorted(history.tonight(), key=lambda row: _rank(row, history), reverse=True):
        good = history.find_last_good(row.cell)
        evidence = read(row, good, row.state not in GOOD)
        texts.update(evidence.texts)
        page = lay_out_cell(row.cell, history, shown, evidence)
        anchor, badge = f"project-{name_file(row.project)}", name_file(row.cell)
        yield (
            name_cell_page(row.cell),
            draw("cell.html", page=page, night=history.last, anchor=anchor, badge=badge),
        )
        yield f"badges/cells/{badge}.svg", draw_cell_badge(page.cell, row.state).encode()
    yield from _badges(history)
    yield "feed.xml", write_feed(morning, find_mornings(history, shown), base).encode()
    yield (
        "trends.html",
        draw("trends.html", page=lay_out_trends(history, shown), night=history.last),
    )
    explained = [replace(texts[check], id=one_line(check)) for check in sorted(texts)]
    yield "checks.html", draw("checks.html", checks=explained, night=history.last)
    index = lay_out_index(history, morning, shown, frozenset(texts))
    words = {
        "since": lambda cell: spell_beginning(cell, morning),
        "failed_since": lambda cell: f"failed since {cell.since}",
        "others_titles": OTHERS,
        "tones": TONES,
        "letters": LETTERS,
        "legend": LEGEND,
    }
    yield INDEX, draw("index.html", page=index, morning=morning, **words)


def _rank(row: CellNight, history: History) -> tuple[bool, str]:
    """What broke last comes first: builds are compared until it is too much."""
    return row.state not in GOOD, history.find_since(row)[0]


def _badges(history: History) -> Iterator[tuple[str, bytes]]:
    by_project: dict[str, Counter[CellState]] = {}
    for row in history.tonight():
        by_project.setdefault(row.project, Counter())[row.state] += 1
    for project, counts in by_project.items():
        badge = draw_project_badge(one_line(project)[:80], counts)
        yield f"badges/projects/{name_file(project)}.svg", badge.encode()


class _Templates:
    """Fills in the templates, each with the style, and with the hash by which that is allowed."""

    def __init__(self) -> None:
        from binary_checks.reports.html.page import mark_up
        from binary_checks.reports.html.templating import prepare, read_own

        self._environment = prepare("binary_checks.fleet.page")
        self._environment.filters["prose"] = mark_up
        self._environment.globals.update({each.__name__: each for each in _WORDS})
        style, source = read_own(self._environment, "fleet.css")
        script, script_source = read_own(self._environment, "filter.js")
        self._own = {"style": style, "style_source": source}
        self._script = {"script": script, "script_source": script_source}

    def __call__(self, template: str, **values: Any) -> bytes:
        script = self._script if template == "index.html" else {}
        found = self._environment.get_template(template)
        return found.render(**self._own, **script, **values).encode()
