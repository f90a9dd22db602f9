"""Make all files of the site from a history and the evidence in the store."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any
from urllib.parse import urljoin
from xml.etree import ElementTree

from binary_checks.fleet.night import GOOD
from binary_checks.fleet.page.charts import draw_cell_badge, draw_project_badge
from binary_checks.fleet.page.commits import COMMIT_LEGEND, CommitPage, CommitPages
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import (
    LEGEND,
    MARKS,
    TONES,
    format_projects,
    format_text,
    name_cell_page,
    name_checks,
    name_commit_page,
    name_file,
    name_pull_page,
)
from binary_checks.fleet.page.night_comparison import (
    OTHERS,
    Morning,
    entitle,
    format_beginning,
    list_notes,
    look_back,
    name_check,
    tally,
)
from binary_checks.fleet.page.night_reading import Remarks
from binary_checks.fleet.page.pages import (
    Link,
    fold,
    format_change,
    lay_out_cell,
    lay_out_index,
    lay_out_trends,
    link_cells,
)
from binary_checks.model import CellState, CheckText
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

INDEX = "index.html"
_WORDS = (
    count,
    entitle,
    fold,
    link_cells,
    list_notes,
    name_check,
    name_checks,
    name_commit_page,
    name_pull_page,
    format_text,
    format_change,
    format_projects,
    tally,
)
"""Functions that the templates call."""
Read = Callable[[CellNight, CellNight | None, bool], CellEvidence]
"""Reads a cell's evidence: arguments are its last night, its last good night, and whether to read
all.
"""


def make_site(  # noqa: PLR0913 - what is shown, how it is read, and options of the user
    history: History,
    read: Read,
    *,
    shown: int,
    remarks: Remarks | None = None,
    base: str = "",
    commits: CommitPages | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file; the index, which links to all others, is the last."""
    draw = _Templates()
    commits = commits or CommitPages()
    built_from = commits.by_package()
    morning = look_back(history, remarks)
    texts: dict[str, CheckText] = {}
    for row in sorted(history.tonight(), key=lambda row: _rank(row, history), reverse=True):
        good = history.find_last_good(row.cell)
        evidence = read(row, good, row.state not in GOOD)
        texts.update(evidence.texts)
        page = lay_out_cell(
            row.cell, history, shown, evidence, _link_commit(built_from.get(row.sha256))
        )
        anchor, badge = f"project-{name_file(row.project)}", name_file(row.cell)
        yield (
            name_cell_page(row.cell),
            draw("cell.html", page=page, night=history.last, anchor=anchor, badge=badge),
        )
        yield f"badges/cells/{badge}.svg", draw_cell_badge(page.cell, row.state).encode()
    yield from _badges(history)
    yield from _draw_commits(draw, commits, history.last)
    yield "feed.xml", write_feed(morning, find_mornings(history, shown), base).encode()
    yield (
        "trends.html",
        draw("trends.html", page=lay_out_trends(history, shown), night=history.last),
    )
    explained = [replace(texts[check], id=one_line(check)) for check in sorted(texts)]
    yield "checks.html", draw("checks.html", checks=explained, night=history.last)
    index = lay_out_index(history, morning, shown, frozenset(texts))
    words = {
        "since": lambda cell: format_beginning(cell, morning),
        "failed_since": lambda cell: f"failed since {cell.since}",
        "others_titles": OTHERS,
        "tones": TONES,
        "letters": MARKS,
        "legend": LEGEND,
        "has_commits": bool(commits.commits),
    }
    yield INDEX, draw("index.html", page=index, morning=morning, **words)


def make_commit_site(commits: CommitPages) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a site without nights, whose index lists the commits."""
    yield from _draw_commits(_Templates(), commits, "")


def _draw_commits(
    draw: _Templates, commits: CommitPages, night: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the pages of commits and pull requests, and their list; none without a commit."""
    words = {"night": night, "commit_legend": COMMIT_LEGEND}
    for each in commits.commits:
        yield name_commit_page(each.commit), draw("commit.html", page=each, **words)
    for pull in commits.pulls:
        yield name_pull_page(pull.number), draw("pull.html", page=pull, **words)
    if commits.commits or not night:
        name = "commits.html" if night else INDEX
        yield name, draw("commits.html", pages=commits, **words)


def _link_commit(page: CommitPage | None) -> Link | None:
    return Link(text=page.short, href=name_commit_page(page.commit)) if page else None


def _rank(row: CellNight, history: History) -> tuple[bool, str]:
    """Return a sort key; in descending order, cells with the latest trouble come first.

    Only the builds of the first cells are compared, because comparing all would take too long.
    """
    return row.state not in GOOD, history.find_since(row)[0]


def _badges(history: History) -> Iterator[tuple[str, bytes]]:
    by_project: dict[str, Counter[CellState]] = {}
    for row in history.tonight():
        by_project.setdefault(row.project, Counter())[row.state] += 1
    for project, counts in by_project.items():
        badge = draw_project_badge(one_line(project)[:80], counts)
        yield f"badges/projects/{name_file(project)}.svg", badge.encode()


class _Templates:
    """The templates, with style and script and their hashes for the page's policy."""

    def __init__(self) -> None:
        from binary_checks.reports.html.templating import prepare, read_own

        self._environment = prepare("binary_checks.fleet.page")
        self._environment.globals.update({each.__name__: each for each in _WORDS})
        style, source = read_own(self._environment, "fleet.css")
        script, script_source = read_own(self._environment, "filter.js")
        self._own = {"style": style, "style_source": source}
        self._script = {"script": script, "script_source": script_source}

    def __call__(self, template: str, **values: Any) -> bytes:
        script = self._script if template == "index.html" else {}
        found = self._environment.get_template(template)
        return found.render(**self._own, **script, **values).encode()


# An Atom feed of newly broken and fixed cells; entries keep their ids (RFC 4287).

_SPACE = "http://www.w3.org/2005/Atom"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "binary-checks/hud/1")
_MOST = 200  # most entries
_NAMED = 20  # most cells named in an entry


def find_mornings(history: History, shown: int) -> Iterator[Morning]:
    """Yield the last nights, each compared with earlier ones, the newest first.

    The first night of the history is left out, because no earlier night is known.
    """
    for night in reversed(history.nights[-shown:]):
        if night != history.nights[0]:
            yield look_back(history.until(night))


def write_feed(last: Morning, mornings: Iterable[Morning], base: str) -> str:
    """Return the feed; ``base`` is the site's URL, or "" if unknown."""
    base = base and f"{base.rstrip('/')}/"  # otherwise urljoin would replace its last part
    feed = ElementTree.Element("feed", xmlns=_SPACE)
    _add(feed, "title", "Nightly binary checks")
    _add(feed, "subtitle", entitle(last))
    _add(feed, "id", uuid.uuid5(_NAMES, base).urn)
    _add(feed, "updated", _at(last.night))
    ElementTree.SubElement(ElementTree.SubElement(feed, "author"), "name").text = "binary-checks"
    ElementTree.SubElement(feed, "link", rel="self", href=urljoin(base, "feed.xml"))
    ElementTree.SubElement(feed, "link", rel="alternate", href=urljoin(base, "index.html"))
    entries = chain.from_iterable(_make_entries(each, base) for each in mornings)
    feed.extend(islice(entries, _MOST))
    ElementTree.indent(feed)
    text = ElementTree.tostring(feed, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _make_entries(morning: Morning, base: str) -> Iterator[ElementTree.Element]:
    """Yield an entry for each newly broken check, and for each project with fixed cells."""
    for each in morning.broke:
        cells = [cell.row.cell for cell in each.cells]
        what = f"{format_projects(each.projects)}: {name_check(each.check)}"
        yield _make_entry(
            morning.night,
            f"broke {morning.night} {' '.join(each.projects)} {each.check}",
            f"{what} broke in {count(len(cells), 'cell')}",
            f"{format_text(each.summary, 400)} ({_name(cells)})",
            urljoin(base, f"{name_cell_page(cells[0])}#n{morning.night}"),
        )
    for project in sorted({cell.row.project for cell in morning.mended}):
        cells = [cell.row.cell for cell in morning.mended if cell.row.project == project]
        yield _make_entry(
            morning.night,
            f"mended {morning.night} {project}",
            f"{format_text(project)}: {count(len(cells), 'cell')} mended",
            _name(cells),
            urljoin(base, f"{name_cell_page(cells[0])}#n{morning.night}"),
        )


def _make_entry(night: str, key: str, title: str, text: str, href: str) -> ElementTree.Element:
    """Return an entry; ``key`` identifies the same news in later feeds."""
    entry = ElementTree.Element("entry")
    _add(entry, "title", title)
    _add(entry, "id", uuid.uuid5(_NAMES, key).urn)
    _add(entry, "updated", _at(night))
    ElementTree.SubElement(entry, "link", rel="alternate", href=href)
    _add(entry, "content", text)
    return entry


def _name(cells: list[str]) -> str:
    named = ", ".join(format_text(cell) for cell in cells[:_NAMED])
    return f"{named} and {len(cells) - _NAMED} more" if len(cells) > _NAMED else named


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text


def _at(night: str) -> str:
    """Return a time for a night, made only from its date, so that all feeds state the same time."""
    return f"{night}T00:00:00Z"
