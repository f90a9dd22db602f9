"""The index as HTML: letters, links only for trouble, and inert for any content of cells."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from binary_checks.fleet.night import AXES
from binary_checks.fleet.page import site
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.night_reading import NightView, Row
from binary_checks.fleet.page.site import make_site
from binary_checks.model import CheckText, Level
from binary_checks.reports.html.page import ShownCheck
from fixtures.histories import fail, history, update
from fixtures.runs import package_result

EVIL = "\n\x1b[31m\u202e\"'><img src=x onerror=alert(1)></title></style><script>alert(1)</script>&"
CHECK = CheckText(id="missing-library", family="linkage", title="Is gone.", why="", fix="")

STAGE = {"stage": "cpu", "exit_status": "exit 1", "complaints": [], "systems": []}


class Reader(HTMLParser):
    """The texts and elements of a page, and its cells as (text, address) by row."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: dict[str, list[tuple[str, str]]] = {}
        self._cells: list[list[str]] = []
        self.feed(page.decode())
        self._end_row()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"tr", "table"}:
            self._end_row()
        elif tag in {"td", "th"}:
            self._cells.append(["", ""])
        elif tag == "a" and self._cells:
            self._cells[-1][1] = dict(attrs)["href"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._end_row()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._cells:
            self._cells[-1][0] += data.strip()

    def _end_row(self) -> None:
        if self._cells:
            (label, _), *cells = self._cells
            self.rows[label] = [(text, href) for text, href in cells]
        self._cells = []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.elements if tag == "a"]


def nothing(row: Row) -> CellEvidence:
    return CellEvidence(texts={} if row["state"] in ("passed", "known") else {CHECK.id: CHECK})


def make(found: NightView) -> dict[str, bytes]:
    return dict(make_site(found, nothing))


def read_index(found: NightView) -> Reader:
    return Reader(make(found)["index.html"])


def test_what_broke_tonight_stands_on_top_with_check_sentence_cell_and_since() -> None:
    page = read_index(history({"demo-linux": "··X", "demo-macos": "···", "other-1": "·XX"}))
    assert page.text.index("Broke tonight") < page.text.index("Still broken")
    top = page.text.partition("Broke tonight")[2].partition("Still broken")[0]
    assert "demo missing-library 1 cell since tonight" in top
    assert "demo/a.so: needs libgone.so.1, which nothing provides linux" in top
    assert "since 2026-11-20" in page.text.partition("Still broken")[2]
    assert {"checks.html#missing-library", "cells/demo-linux.html"} <= {*page.links}


def test_a_second_sentence_of_the_check_is_counted() -> None:
    found = history({"demo-linux": "··X", "demo-macos": "··X", "demo-windows": "··X"})
    for cell, said in (("demo-macos", "second"), ("demo-windows", "third")):
        sentence = "UPDATE all_checks SET sentence = ? WHERE cell = ?"
        found.connection.execute(sentence, [said, cell])
        number = "1 other sentence" if said == "second" else "2 other sentences"
        assert f"and {number}" in read_index(found).text


def test_a_row_has_a_letter_a_night_the_last_first_and_links_only_what_is_not_well() -> None:
    page = read_index(history({"demo-linux": "·k-IX", "demo-macos": "·····"}))
    assert page.rows["linux"] == [
        ("X", "cells/demo-linux.html#n2026-11-21"),
        ("I", "cells/demo-linux.html#n2026-11-20"),
        ("\u2013", "cells/demo-linux.html#n2026-11-19"),
        ("k", ""),
        ("P", ""),
    ]


def test_failing_rows_are_first_and_cells_that_always_passed_are_folded() -> None:
    cells = {"d-1": "···", "d-2": "X··", "d-3": "·~~", "d-4": "XXX", "d-5": "··X", "d-6": "·--"}
    page = read_index(history(cells))
    assert [row for row in page.rows if row.isdigit()] == ["5", "4", "6", "3", "2"]
    assert "1 cell passed in every night d 1" in page.text
    assert "left the matrix" not in page.text


def test_only_the_nights_that_are_asked_for_have_a_column() -> None:
    page = read_index(history({"d-1": "·XXXX", "d-2": "X····"}, shown=2))
    assert len(page.rows["1"]) == 2
    assert "2" not in page.rows  # it passed in both
    assert "since 2026-11-18" in page.text  # which is older than what is shown


def test_cells_that_left_the_matrix_are_one_folded_line_and_have_no_page() -> None:
    found = make(history({"d-1": "·X ", "d-2": "···", "e-3": "~  ", "e-4": "··X"}))
    page = Reader(found["index.html"])
    assert [row for row in page.rows if row.isdigit()] == ["4"]
    assert "2 cells left the matrix d 1 X on 2026-11-20 e 3 ~ on 2026-11-19" in page.text
    assert {"cells/d-1.html", "cells/e-3.html"}.isdisjoint(found)
    page = read_index(history({"d-1": "·· ", "d-2": "···"}))
    assert "No longer in the matrix 1 cell: d 1" in page.text  # since tonight


def test_all_cells_are_named_by_the_same_axes_or_by_their_ids() -> None:
    page = read_index(history({"alone-linux": "·X", "demo-linux": "·X", "demo-macos": "·X"}))
    assert [row for row in page.rows if row in {"linux", "macos"}] == ["linux", "macos"]
    assert not {"alone-linux", "demo-linux"} & page.rows.keys()
    found = history({"a-": "·X", "b-linux": "·X"})  # the one has no axis of its own
    assert {"a-", "linux"} <= read_index(found).rows.keys()


def test_columns_have_the_days_and_the_names_of_their_months() -> None:
    page = read_index(history({"d-1": "·" * 22 + "X"}))
    heads = [row for row in page.rows.values() if len(row) == 23]
    assert heads[0][0] == ("21", "")
    assert "Nov Oct Cell 21 20" in page.text


def test_where_too_much_is_wrong_only_changes_are_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_LINKED", 2)
    page = read_index(history({"d-1": "·XXX", "d-2": "····"}))
    assert [bool(href) for _, href in page.rows["1"]] == [True, False, True, False]


def test_a_good_night_says_so_and_shows_no_alarm() -> None:
    page = read_index(history({"d-1": "···", "d-2": "·k·"}))
    assert "All is well in 2 cells" in page.text
    assert "Broke" not in page.text
    assert not any(
        "bad" in (attrs.get("class") or "").split() for tag, attrs in page.elements if tag != "b"
    )


def test_every_link_leads_to_a_file_of_the_site() -> None:
    found = make(history({"demo-linux": "·XX", "demo-macos": "··X", "b-1": "·X·", "b-2": "··~"}))
    for name, content in found.items():
        if name.endswith(".html"):
            page = Reader(content)
            ids = {attrs.get("id") for _, attrs in page.elements}
            for link in page.links:
                path, _, anchor = link.partition("#")
                target = re.sub(r"^\.\./", "", path) if name.startswith("cells/") else path
                assert not path or target in found, (name, link)
                where = Reader(found[target]) if path else None
                there = {attrs.get("id") for _, attrs in where.elements} if where else ids
                assert not anchor or anchor in there, (name, link)


def test_links_to_a_check_of_an_odd_name_lead_to_its_text() -> None:
    odd = 'own "check"; 1%'
    found = history({"demo-linux": "··X"}, checks={"demo-linux": odd})
    package = package_result("demo.whl")
    shown = ShownCheck(package, id=odd, level=Level.ERROR, text=None, fixes=(), faults=[])
    evidence = CellEvidence(
        texts={odd: replace(CHECK, id=odd)},
        stages=({**STAGE, "checks": [shown]},),
    )
    made = dict(make_site(found, lambda _: evidence))
    anchors = {attrs.get("id") for _, attrs in Reader(made["checks.html"]).elements}
    links = Reader(made["index.html"]).links + Reader(made["cells/demo-linux.html"]).links
    named = [link.partition("#")[2] for link in links if "checks.html#" in link]
    assert len(named) == 2
    assert {*named} <= anchors


def test_what_cells_checks_and_sentences_say_stays_text() -> None:
    found = history({"demo-linux": "··X"}, notices=[EVIL], notes={"Changed": [EVIL]})
    texts = ("reason", "version", "cause", "evidence", "url", "file_name", "cell", *AXES)
    update(found, **dict.fromkeys(texts, EVIL))
    found.connection.execute("DELETE FROM all_checks")
    fail(found, EVIL, found.night, EVIL, said=EVIL, path=EVIL)
    made = make(found)
    for name, content in made.items():
        assert name.isascii(), name
        assert "/" not in name.removeprefix("cells/").removeprefix("badges/").split("/", 1)[-1]
        assert b"\x1b" not in content
        assert "\u202e" not in content.decode()
        if name.endswith(".html"):
            page = Reader(content)
            assert {tag for tag, _ in page.elements} & {"img", "iframe", "object"} == set()
            assert sum(tag == "script" for tag, _ in page.elements) == (name == "index.html")
            assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on")]


def test_one_history_makes_one_site() -> None:
    cells = {"demo-linux": "·XX", "demo-macos": "··X", "b-1": "·X·"}
    assert make(history(cells)) == make(history(dict(reversed(cells.items()))))


def test_pages_may_load_nothing_but_their_own_style_and_script() -> None:
    for name, content in make(history({"d-1": "·X"})).items():
        if name.endswith(".html"):
            (policy,) = (
                attrs["content"] or ""
                for tag, attrs in Reader(content).elements
                if attrs.get("http-equiv") == "Content-Security-Policy"
            )
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert ("script-src" in policy) == (name == "index.html")
            assert "unsafe" not in policy
