"""The morning mail: complete, and short enough to be read."""

from __future__ import annotations

from binary_checks.fleet.page.morning import read_morning, write_mail
from binary_checks.fleet.page.night_reading import NightView
from binary_checks.fleet.page.remarks import EXPIRING, LIST, UNMATCHED
from fixtures.histories import history

CHANGED = "Changed in the index since planning"
NOTES = {
    CHANGED: ["a-1: 1.1 is published by now"],
    EXPIRING: ["missing-library until 2026-11-25: soon"],
    UNMATCHED: ["x: y"],
}


def mail(found: NightView, *, markdown: bool = False) -> list[str]:
    return write_mail(read_morning(found), markdown=markdown).splitlines()


def test_a_good_night_is_two_lines_and_one_for_cells_that_are_no_longer_looked_at() -> None:
    assert mail(history({"a-1": "··", "a-2": "·k"})) == [
        "2026-11-21: All is well in 2 cells",
        "  1 passed, 1 known",
    ]
    assert mail(history({"a-1": "··", "b-1": "· "})) == [
        "2026-11-21: All is well in 1 cell",
        "  1 passed",
        "No longer in the matrix: 1 cell: b-1",
    ]


def test_each_kind_of_news_has_its_line() -> None:
    cells = {"a-1": "·X", "a-2": "XX", "a-3": "X·", "a-4": "·~", "a-5": "·-", "a-6": "·S"}
    assert mail(history({**cells, "a-7": "·L", "a-8": "·I", "a-9": "·B"}, notes=NOTES)) == [
        "2026-11-21: 1 check broke in 1 cell",
        "  1 passed, 2 failed, 1 flaky, 1 infra, 1 lost, 1 blocked, 1 stale, 1 missing",
        "Broke tonight:",
        "  a: missing-library in 1 cell since tonight: a-1",
        "    demo/a.so: needs libgone.so.1, which nothing provides",
        "Still broken:",
        "  a: missing-library in 1 cell since 2026-11-20 or earlier",
        "Mended: 1 cell: a-3",
        "Missing: 1 cell since tonight: a-5",
        "Too old: 1 cell since tonight: a-6",
        "No result: 1 cell since tonight: a-7",
        "Infra: 1 cell since tonight: a-8",
        "Flaky: 1 cell since tonight: a-4",
        "GPU waits: 1 cell since tonight: a-9",
        "Changed in the index since planning: a-1: 1.1 is published by now",
        "Known problems that expire soon: missing-library until 2026-11-25: soon",
        "Known problems without a match: x: y",
    ]


def test_a_terrible_night_still_fits_a_screen() -> None:
    letters = "X~ISBL-"
    cells = {f"p{number}-{letter}": f"·{letter}" for number in range(20) for letter in letters} | {
        f"q{number}-1": "XX" for number in range(20)
    }
    checks = {cell: f"check-{cell}" for cell in cells}
    many = [*map(str, range(20))]
    notes = {CHANGED: many, EXPIRING: many, UNMATCHED: many, LIST: ["the list is too old"]}
    lines = mail(history(cells, checks=checks, notices=many, notes=notes))
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 500
    assert "  and 14 more" in lines


def test_nothing_from_outside_becomes_markup() -> None:
    found = history({"a-1": "·X"}, said="`*a* [b](http://c) <b> @d | e")
    lines = mail(found, markdown=True)
    assert "- `a: missing-library` in 1 cell since tonight: `a-1`" in lines
    assert "    ``demo/a.so: `*a* [b](http://c) <b> @d | e``" in lines


def test_a_notice_drives_no_terminal() -> None:
    notice = "one.cpu1.json: \x1b]0;owned\x07\n::error::\u202e"
    lines = mail(history({"a-1": "··"}, notices=[notice]))
    assert "Notice: one.cpu1.json: \\x1b]0;owned\\x07\\n\\x3a:error::\\u202e" in lines


def test_six_broken_cells_are_all_named_whether_one_check_broke_them_or_six() -> None:
    cells = {f"a-{number}": "·X" for number in range(6)}
    for checks in ({}, {cell: f"check-{cell}" for cell in cells}):
        text = "\n".join(mail(history(cells, checks=checks)))
        assert all(cell in text for cell in cells)
        assert "more" not in text


def test_no_line_says_that_one_is_left_out() -> None:
    for number in (6, 7, 8, 9, 10):  # at and above what a line or a list has room for
        cells = {f"a-{each}": "·X" for each in range(number)}
        for checks in ({}, {cell: f"check-{cell}" for cell in cells}):
            lines = mail(history(cells, checks=checks))
            assert not [line for line in lines if line.endswith("and 1 more")]
