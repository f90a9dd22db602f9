"""Make all files of the site from the answers about a night and the evidence in the store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby, islice, pairwise
from operator import itemgetter
from urllib.parse import urljoin

from binary_checks.fleet.causes.cause_rules import shipped_causes
from binary_checks.fleet.night import AXES, GOOD, LETTERS
from binary_checks.fleet.page.charts import draw_states
from binary_checks.fleet.page.commits import COMMIT_LEGEND, CommitPages
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.morning import OTHERS, Morning, read_morning
from binary_checks.fleet.page.naming import (
    LEGEND,
    MARKS,
    TONES,
    format_text,
    label_cells,
    name_cell_page,
    name_commit_page,
    name_file,
    name_pull_page,
)
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.page.templates import Templates
from binary_checks.model import CellState, CheckText
from binary_checks.safe_text import one_line

INDEX = "index.html"
# most links in the tables; beyond that, only a letter that differs from the night before is a link
_LINKED = 2_000
_STATES = {letter: state for state, letter in LETTERS.items()}
_RANKED = 8  # cells in each list of the slowest and the largest
_WELL = {state.value for state in GOOD}
Read = Callable[[Row], CellEvidence]
"""Reads the evidence of a cell, given as a row of the query `tonight`."""


def make_site(
    view: NightView,
    read: Read,
    *,
    base: str = "",
    commits: CommitPages | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file; the index, which links to all others, is the last."""
    for name, text in _make_files(view, read, base, commits or CommitPages()):
        yield name, text.encode()


def make_commit_site(commits: CommitPages) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a site without nights, whose index lists the commits."""
    for name, text in _draw_commits(Templates(), commits, ""):
        yield name, text.encode()


def _make_files(
    view: NightView, read: Read, base: str, commits: CommitPages
) -> Iterator[tuple[str, str]]:
    templates, night = Templates(), view.night
    morning = read_morning(view)
    texts: dict[str, CheckText] = {}
    yield from _draw_cells(templates, view, read, commits, texts)
    trends = {
        project: [*rows] for project, rows in groupby(view.ask("trends"), itemgetter("project"))
    }
    whole = trends.pop(None)
    yield from _draw_badges(templates, [rows[-1] for rows in trends.values()])
    yield from _draw_commits(templates, commits, night)
    yield "feed.xml", _write_feed(templates, view, morning, base)
    labels, names = label_cells(view.ask("matrix"))
    days = [row["night"] for row in reversed(whole)]
    yield (
        "trends.html",
        templates.render(
            "trends.html",
            night=night,
            whole=whole,
            projects=trends,
            slowest=[*view.ask("slowest", rows=_RANKED)],
            largest=[*view.ask("largest", rows=_RANKED)],
            names=names,
        ),
    )
    explained = [replace(texts[check], id=one_line(check)) for check in sorted(texts)]
    yield "checks.html", templates.render("checks.html", checks=explained, night=night)
    yield (
        INDEX,
        templates.render(
            "index.html",
            night=night,
            morning=morning,
            notes=morning.list_notes(names),
            others_titles=OTHERS,
            trend=draw_states(whole),
            days=days,
            months=[
                (date.fromisoformat(month + "-01").strftime("%b"), len([*of]))
                for month, of in groupby(days, lambda night: night[:7])
            ],
            grid=_read_grid(view, days),
            labels=labels,
            names=names,
            explained=texts,
            legend=LEGEND,
            has_commits=bool(commits.commits),
        ),
    )


# The page of each cell: its problems, its changes, the command to repeat it, and earlier nights.


def _draw_cells(
    templates: Templates,
    view: NightView,
    read: Read,
    commits: CommitPages,
    texts: dict[str, CheckText],
) -> Iterator[tuple[str, str]]:
    """Yield pages and badges, and collect the descriptions of the checks that are named."""
    built_from = commits.by_package()
    tonight = [*view.ask("tonight")]
    histories = groupby(view.ask("history"), itemgetter("cell"))  # cells in the same order
    for row, (_, history) in zip(tonight, histories, strict=False):
        evidence = read(row)
        texts.update(evidence.texts)
        nights = [*history]
        values = {
            "row": row,
            "night": view.night,
            "nights": nights,
            "evidence": evidence,
            "well": row["state"] in _WELL,
            "cause": _format_cause(row, nights[0]["check_id"], evidence),
            "axes": {name: row[name] for name in AXES[1:]},
            "commit": built_from.get(row["sha256"]),
        }
        yield name_cell_page(row["cell"]), templates.render("cell.html", **values)
        name = f"badges/cells/{name_file(row['cell'])}.svg"
        tone = "good" if row["state"] in _WELL else "bad" if row["state"] == "failed" else "mild"
        yield name, draw_badge(templates, format_text(row["cell"], 200), row["state"], tone)


def _format_cause(row: Row, check: str | None, evidence: CellEvidence) -> str:
    """Return the cause and the remedy; "" for a failed check, whose problems the page shows."""
    cause, kind = row["cause"], row["cause_kind"]
    if not cause or cause == check or cause in evidence.texts:
        return ""
    named = f"{cause} ({kind})" if kind and kind != cause else cause
    text = format_text(f"{named}: {row['evidence']}" if row["evidence"] else named, 400)
    advice = shipped_causes().advice_on(cause)
    return f"{text}. What to do: {advice}" if advice else text


# Badges of cells and projects.


def draw_badge(templates: Templates, label: str, word: str, tone: str) -> str:
    """Return a badge with a label and a word, as SVG that needs no font and loads nothing."""
    return templates.render("badge.svg", label=label, word=word, tone=tone) + "\n"


def _draw_badges(templates: Templates, projects: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Yield the badges of projects: how many of their cells are well."""
    for row in projects:
        word, tone = "{passed} of {cells} cells pass", "mild"
        if row["failed"]:
            word, tone = "{failed} of {cells} cells fail", "bad"
        elif row["passed"] == row["cells"]:
            tone = "good"
        label, word = one_line(row["project"])[:80], word.format(**row)
        if row["cells"]:
            name = f"badges/projects/{name_file(row['project'])}.svg"
            yield name, draw_badge(templates, label, word, tone)


def _draw_commits(
    templates: Templates, commits: CommitPages, night: str
) -> Iterator[tuple[str, str]]:
    """Yield the pages of commits and pull requests, and their list; none without a commit."""
    words = {"night": night, "commit_legend": COMMIT_LEGEND}
    for each in commits.commits:
        yield name_commit_page(each["commit"]), templates.render("commit.html", page=each, **words)
    for number, pull in commits.pulls.items():
        text = templates.render("pull.html", number=number, commits=pull, **words)
        yield name_pull_page(number), text
    if commits.commits or not night:
        name = "commits.html" if night else INDEX
        yield name, templates.render("commits.html", pages=commits, **words)


# The table of nights and cells on the index.


def _read_grid(view: NightView, days: Sequence[str]) -> list[Row]:
    """Return the rows of all cells; those that had trouble have a mark for each night."""
    grid = [*view.ask("grid")]
    every = sum(row["troubles"] for row in grid) <= _LINKED
    for row in grid:
        if row["kind"] == "troubled":
            row["marks"] = [*_mark_nights(row, days, every=every)]
    return grid


def _mark_nights(
    row: Row, days: Sequence[str], *, every: bool
) -> Iterator[tuple[str, str, str] | None]:
    """Yield letter, tone and address of each night, the latest first; None without the cell.

    Letters are linked if the cell had trouble: ``every`` one, or those that differ from the night
    before.
    """
    letters = row["nights"][::-1]
    for index, (letter, before) in enumerate(pairwise([*letters, ""])):
        state = _STATES.get(letter)
        if state is None:
            yield None
            continue
        begins = letter != before
        tone = "" if state is CellState.PASSED else TONES[state]
        # in the first night shown, the failure may have begun earlier
        if state is CellState.FAILED and begins and before:
            tone = f"{tone} new"
        linked = state not in GOOD and (every or begins or not index)
        href = f"{name_cell_page(row['cell'])}#n{days[index]}" if linked else ""
        yield MARKS[state], tone, href


# An Atom feed of newly broken and mended cells; entries keep their ids (RFC 4287).

_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "binary-checks/hud/1")
_MOST = 200  # most entries


def _write_feed(templates: Templates, view: NightView, morning: Morning, base: str) -> str:
    """Return the feed of the nights shown; ``base`` is the site's URL, or "" if unknown."""
    text = templates.render(
        "feed.xml",
        morning=morning,
        entries=[*islice(view.ask("news", days=view.shown), _MOST)],
        base=base and f"{base.rstrip('/')}/",  # otherwise urljoin would replace its last part
        urljoin=urljoin,
        identify=lambda key: uuid.uuid5(_NAMES, key).urn,
    )
    return f"{text}\n"
