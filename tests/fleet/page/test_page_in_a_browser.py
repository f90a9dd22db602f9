"""The site in Chromium: from files, without network or scripts, inert and accessible."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.night import AXES
from binary_checks.fleet.page.commits import read_commits
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.page.site import make_site
from binary_checks.fleet.page.site_folder import write_site
from binary_checks.fleet.store import open_store
from binary_checks.model import (
    CheckText,
    DifferenceLine,
    Entry,
    Level,
    Outcome,
    Problem,
    Severity,
)
from binary_checks.reports.html.page import show_checks
from binary_checks.safe_text import one_line
from fixtures.browser import Page
from fixtures.fleet.commits import commit_of, push_builds
from fixtures.histories import add, history
from fixtures.runs import package_result
from tests.shown_pages import HOSTILE, demand_accessible, page

pytestmark = pytest.mark.browser
__all__ = ["page"]  # a fixture
EVIL = "evil-linux"
CELLS = {
    **{f"demo-linux-{number}": "·····X" for number in range(9)},
    "demo-macos": "·XX-·~",
    "demo-windows": "······",
    "other-linux": "XXXXXX",
    "other-macos": "·kkkkk",
    "third-1": "·····I",
    "third-2": "·····L",
    "third-3": "·····B",
    "third-4": "·····S",
    "third-5": "·····-",
    "third-6": "·XXXX·",
    "fourth-1": "······",
    EVIL: "·····X",
}
NOTES = {"Changed in the index since planning": [HOSTILE], "Soon": [HOSTILE, "b"]}
BROKEN = "cells/demo-linux-1.html"
COMMIT = f"commits/{commit_of(1)}.html"
OF_COMMITS = ("commits.html", COMMIT, "pulls/7.html")
PAGES = ("index.html", BROKEN, f"cells/{EVIL}.html", "trends.html", "checks.html", *OF_COMMITS)
STAGE = {"stage": "cpu", "exit_status": "exit 1", "systems": []}
QUIET = {BROKEN, "commits.html"}
"""The pages on which nothing hostile stands."""


def make_evil() -> NightView:
    """One cell of which everything that comes from outside is hostile."""
    found = history(CELLS, notices=[HOSTILE], notes=NOTES)
    texts = ("reason", "version", "cause", "evidence", "url", "file_name", *AXES)
    named = ", ".join(f'"{name}" = $hostile' for name in texts)
    given = {"hostile": HOSTILE, "cell": EVIL}
    found.connection.execute(f"UPDATE all_cells SET {named} WHERE cell = $cell", given)
    evil = "check_id = $hostile, path = $hostile, sentence = $hostile"
    found.connection.execute(f"UPDATE all_checks SET {evil} WHERE cell = $cell", given)
    digests = found.connection.execute(
        "SELECT DISTINCT sha256 FROM all_cells WHERE cell = ?", [EVIL]
    ).fetchall()
    for (sha256,) in digests:
        for part, size in (("native code", 3_000_000), ("data", 70_000)):
            add(found, "parts", night="2026-11-16", sha256=sha256, part=part, size=size)
    return found


def read(row: Row) -> CellEvidence:
    """What a store may keep of a cell."""
    text = HOSTILE if row["cell"] == EVIL else "missing-library"
    said = one_line(text)
    if row["state"] in ("passed", "known"):
        return CellEvidence(rerun="binary-checks demo.whl")
    files = ("demo/a.so", said, *(f"demo/{number}.so" for number in range(8)))
    problems = [Problem(path=path, sentence=said, cause=said, command=said) for path in files]
    others = [Problem(path=f"{number}", sentence=f"{said} {number}") for number in range(60)]
    ran = Problem(path="demo", sentence=said, cause=said, consequence=True)
    results = (
        Entry(
            check=said,
            family="linkage",
            outcome=Outcome.FAILED,
            problems=(*problems, *others),
            warnings=(Problem(sentence=said, level=Level.WARNING, fix=text),),
        ),
        Entry(check="import-fails", family="runtime", outcome=Outcome.FAILED, problems=(ran,)),
    )
    texts = {
        each: CheckText(id=each, family="linkage", title=text, why=text, fix=text)
        for each in (text, said)
    }
    checks = tuple(show_checks(package_result("demo.whl", *results), texts))
    return CellEvidence(
        stages=({**STAGE, "checks": checks, "complaints": [said]},),
        texts=texts,
        log=(said, "", "the last line"),
        log_cut=True,
        rerun=f"binary-checks {said} {'x' * 500}",
        changes=(
            DifferenceLine(severity=Severity.BREAK, difference="needed-libraries", text=said),
        ),
        changes_note=said,
        gaps=(said,),
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with every state, and with a cell that is hostile wherever it can be."""
    out = tmp_path_factory.mktemp("site")
    found = make_evil()
    store = open_store(str(tmp_path_factory.mktemp("store") / "store"), make=True)
    for number in range(3):
        builds = {"3.11": "P", "3.12": "X", "3.13": "?"}
        push_builds(store, commit_of(number), builds, pull_request="7", said=HOSTILE)
    commits = read_commits(store, found, shown=30)
    write_site(out, make_site(found, read, commits=commits))
    return out


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(page: Page, site: Path, scheme: str, width: int, name: str) -> None:
    found = demand_accessible(page, (site / name).as_uri(), scheme, width)
    assert "color-contrast" in {each["id"] for each in found["passes"]}  # 4.5, computed


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_a_file_and_hostile_texts_are_shown_and_do_nothing(
    page: Page, site: Path, name: str
) -> None:
    page.open((site / name).as_uri(), scheme="light", width=1280)
    assert page.requested() == [(site / name).as_uri()]
    happened = page.happened()
    assert "Log.entryAdded" not in happened  # nothing was blocked, for nothing was tried
    assert "Page.javascriptDialogOpening" not in happened
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px"  # its style counts
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == (name == "index.html")
    handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
    assert page.evaluate(f"{handlers}.filter(a => a.name.startsWith('on')).length") == 0
    text = page.evaluate("document.body.textContent")
    assert ("<script>alert(2)</script>" in text) == (name not in QUIET)
    assert "\u202e" not in text


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_narrow_window(page: Page, site: Path, name: str) -> None:
    page.open((site / name).as_uri(), scheme="light", width=400)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("nights", [1, 5, 30])
@pytest.mark.parametrize(("width", "least"), [(1280, 90), (400, 140)])
def test_nights_are_narrow_columns_beside_names_that_can_be_read(
    page: Page, tmp_path: Path, nights: int, width: int, least: int
) -> None:
    found = history({"demo-linux-x86_64": "X" * nights, "demo-windows-x86_64": "X" * nights})
    write_site(tmp_path, make_site(found, read))
    page.open((tmp_path / "index.html").as_uri(), scheme="light", width=width)
    last = "[...document.querySelectorAll('.nights tbody tr:last-child > *')]"
    name, *letters = page.evaluate(f"{last}.map(each => each.offsetWidth)")
    assert name >= least
    assert len(letters) == nights
    assert {*letters} <= {22, 23, 24}


def test_every_letter_of_the_table_stands_on_a_colour_of_its_kind(page: Page, site: Path) -> None:
    page.open((site / "index.html").as_uri(), scheme="light", width=1280)
    pairs = (
        "[...document.querySelectorAll('.nights tbody td')].filter(e => e.textContent)"
        ".map(e => [e.textContent, getComputedStyle(e).backgroundColor])"
    )
    grounds: dict[str, set[str]] = {}
    for letter, ground in page.evaluate(pairs):
        grounds.setdefault(letter, set()).add(ground)
    assert len({min(grounds[letter]) for letter in "PXI"}) == 3
    assert all("rgba(0, 0, 0, 0)" not in found for found in grounds.values())
    assert len(grounds["X"]) == 2  # where it began, and later


@pytest.mark.parametrize(("scheme", "lighter"), [("light", True), ("dark", False)])
def test_it_is_as_light_or_dark_as_its_reader_likes(
    page: Page, site: Path, scheme: str, lighter: bool
) -> None:
    page.open((site / "index.html").as_uri(), scheme=scheme, width=1280)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(colour.removeprefix("rgb(").split(",")[0])
    assert (red > 128) is lighter


def test_the_filter_leaves_the_rows_that_have_all_of_its_words(page: Page, site: Path) -> None:
    page.open((site / "index.html").as_uri(), scheme="light", width=1280)
    rows = "[...document.querySelectorAll('.nights tbody tr:not(.project)')]"
    shown = f"{rows}.filter(row => !row.hidden)"
    assert page.evaluate(f"{shown}.length") > 9
    page.evaluate(
        "document.getElementById('filter').value = 'DEMO linux';"
        "document.getElementById('filter').dispatchEvent(new Event('input'))"
    )
    assert page.evaluate(f"{shown}.length") == 9


def test_without_script_all_is_there_but_the_filter(page: Page, site: Path) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open((site / "index.html").as_uri(), scheme="light", width=1280)
        tree = page.call("DOM.getDocument", depth=0)["root"]["nodeId"]
        html = page.call("DOM.getOuterHTML", nodeId=tree)["outerHTML"]
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert '<p hidden="">' in html
    assert html.count("<tr") > len(CELLS)
