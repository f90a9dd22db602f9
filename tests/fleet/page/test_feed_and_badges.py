"""The feed, whose entries keep their ids, and readable badges."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.night_reading import NightView
from binary_checks.fleet.page.site import draw_badge, make_site
from binary_checks.fleet.page.templates import Templates
from fixtures.contrast import contrast
from fixtures.histories import history, nights, update

ATOM = "{http://www.w3.org/2005/Atom}"
EVIL = "\x1b\u202e\"'><script>alert(1)</script>&"


def feed(found: NightView, base: str = "") -> ElementTree.Element:
    made = dict(make_site(found, lambda _: CellEvidence(), base=base))
    return ElementTree.fromstring(made["feed.xml"])


def entries(found: NightView, base: str = "") -> list[dict[str, str]]:
    def read(entry: ElementTree.Element) -> dict[str, str]:
        texts = {each.tag.removeprefix(ATOM): each.text or "" for each in entry}
        link = entry.find(f"{ATOM}link")
        return texts | {"link": link.attrib["href"] if link is not None else ""}

    return [read(entry) for entry in feed(found, base).iter(f"{ATOM}entry")]


def test_there_is_an_entry_for_what_broke_and_one_for_what_was_mended_the_newest_first() -> None:
    found = entries(history({"a-1": "·X·", "a-2": "·XX", "b-1": "··X"}))
    assert [(each["title"], each["updated"][:10]) for each in found] == [
        ("b: missing-library broke in 1 cell", nights(3)[2]),
        ("a: 1 cell mended", nights(3)[2]),
        ("a: missing-library broke in 2 cells", nights(3)[1]),
    ]
    assert found[0]["content"] == "demo/a.so: needs libgone.so.1, which nothing provides (b-1)"
    assert found[0]["link"] == f"cells/b-1.html#n{nights(3)[2]}"


def test_an_entry_keeps_its_name_in_later_feeds() -> None:
    found = history({"a-1": "·X··", "a-2": "··X·"})
    earlier = {each["id"] for each in entries(replace(found, night=nights(4)[2]))}
    assert earlier
    assert earlier < {each["id"] for each in entries(found)}


def test_every_entry_has_a_name_of_its_own() -> None:
    found = [each["id"] for each in entries(history({"a-1": "·X·X·X", "b-1": "·X·X·X"}))]
    assert len(found) == len({*found}) == 7  # broke thrice, two projects mended twice


def test_addresses_are_whole_where_it_is_known_where_the_site_is() -> None:
    found = history({"a-1": "·X"})
    for base in ("https://hud.example/wheels/", "https://hud.example/wheels"):
        (entry,) = entries(found, base)
        assert entry["link"].startswith("https://hud.example/wheels/cells/a-1.html#n")


def test_the_first_night_is_no_news() -> None:
    assert entries(history({"a-1": "X", "a-2": "·"})) == []


def test_what_comes_from_outside_stays_text() -> None:
    found = history({"a-1": "·X"}, said=EVIL)
    update(found, project=EVIL)
    (entry,) = entries(found)
    assert "<script>" in entry["title"]
    assert "\u202e" not in entry["content"]


def test_a_badge_says_how_many_cells_pass() -> None:
    said = {
        "·k··": "4 of 4 cells pass",
        "·k··XX": "2 of 6 cells fail",
        "·k··-": "4 of 5 cells pass",
    }
    for letters, word in said.items():
        found = history({f"demo-{number}": letter for number, letter in enumerate(letters)})
        made = dict(make_site(found, lambda _: CellEvidence()))
        badge = ElementTree.fromstring(made["badges/projects/demo.svg"])
        assert badge[0].text == f"demo: {word}"
    stale = dict(make_site(history({"demo-linux": "S"}), lambda _: CellEvidence()))
    badge = ElementTree.fromstring(stale["badges/cells/demo-linux.svg"])
    assert badge[0].text == "demo-linux: stale"


@pytest.mark.parametrize("tone", ["good", "bad", "mild"])
def test_what_a_badge_says_can_be_read(tone: str) -> None:
    badge = ElementTree.fromstring(draw_badge(Templates(), EVIL.replace("\x1b", ""), "said", tone))
    fills = [each.attrib["fill"] for each in badge if each.tag.endswith("rect")]
    assert len(fills) == 2
    assert all(contrast(fill, "#ffffff") >= 4.5 for fill in fills)
