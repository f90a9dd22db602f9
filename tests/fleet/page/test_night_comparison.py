"""A night compared with those before."""

from __future__ import annotations

from dataclasses import replace

from binary_checks.fleet.page.charts import draw_states
from binary_checks.fleet.page.history import FailedCheck, History
from binary_checks.fleet.page.night_comparison import entitle, look_back
from binary_checks.model import CellState
from fixtures.histories import history, nights


def broke(found: History) -> list[str]:
    return [cell.row.cell for each in look_back(found).broke for cell in each.cells]


def still(found: History) -> list[tuple[str, str]]:
    return [(cell.row.cell, cell.since) for each in look_back(found).still for cell in each.cells]


def test_a_cell_that_passed_and_fails_is_newly_broken() -> None:
    assert broke(history({"a-1": "··X", "a-2": "···"})) == ["a-1"]


def test_a_cell_that_fails_in_its_first_night_is_newly_broken() -> None:
    assert broke(history({"a-1": "  X", "a-2": "···"})) == ["a-1"]


def test_a_cell_that_failed_already_is_still_broken_since_the_first_failure_after_a_pass() -> None:
    found = history({"a-1": "X·XXX"})
    assert broke(found) == []
    assert still(found) == [("a-1", nights(5)[2])]


def test_nights_that_could_not_tell_are_stepped_over() -> None:
    assert still(history({"a-1": "·XI-X"})) == [("a-1", nights(5)[1])]
    assert broke(history({"a-1": "··LIX"})) == ["a-1"]


def test_a_check_that_begins_to_fail_in_a_broken_cell_is_newly_broken() -> None:
    found = history({"a-1": "·XX"})
    later = FailedCheck(check="import-fails", sentence="import a fails")
    key = ("a-1", found.last)
    found = replace(found, failures={**found.failures, key: (*found.failures[key], later)})
    (new,) = look_back(found).broke
    assert (new.check, new.since) == ("import-fails", found.last)
    assert still(found) == [("a-1", nights(3)[1])]


def test_of_checks_that_say_one_fault_only_the_one_that_leads_is_named() -> None:
    found = history({"a-1": "·X"})
    key = ("a-1", found.last)
    also = FailedCheck(check="extension-fails-to-load", sentence="is refused by the loader")
    found = replace(found, failures={key: (also, *found.failures[key])})
    assert [each.check for each in look_back(found).broke] == [also.check, "missing-library"]
    led = replace(found, leading={"a-1": frozenset({"missing-library"})})
    assert [each.check for each in look_back(led).broke] == ["missing-library"]


def test_a_cause_that_is_a_check_which_failed_is_not_said_twice() -> None:
    found = history({"a-1": "·X"})
    rows = found.cells["a-1"]
    for cause, said in {
        "missing-library": "",
        "unknown": "",
        "glibc-too-old": "glibc-too-old",
    }.items():
        row = replace(rows[found.last], cause=cause)
        (each,) = look_back(replace(found, cells={"a-1": {**rows, found.last: row}})).broke
        assert each.cause == said


def test_cells_that_one_check_broke_are_one_breakage() -> None:
    found = history({"a-1": "·X", "a-2": "·X", "a-3": "·X"}, checks={"a-3": "other"})
    assert [(each.projects, each.check, len(each.cells)) for each in look_back(found).broke] == [
        (("a",), "missing-library", 2),
        (("a",), "other", 1),
    ]


def test_projects_in_which_a_check_says_the_very_same_are_one_breakage() -> None:
    found = history({"a-1": "·X", "b-1": "·X", "c-1": "·X"}, checks={"c-1": "other"})
    assert [each.projects for each in look_back(found).broke] == [("a", "b"), ("c",)]


def test_a_cell_that_failed_and_passes_is_mended() -> None:
    (cell,) = look_back(history({"a-1": "·XXI·", "a-2": "·····"})).mended
    assert (cell.row.cell, cell.since) == ("a-1", nights(5)[1])


def test_what_neither_passed_nor_failed_is_listed_by_state_with_its_first_night() -> None:
    others = look_back(history({"a-1": "·--", "a-2": "··S", "a-3": "··~", "a-4": "XXI"})).others
    assert {state: [(c.row.cell, c.since) for c in cells] for state, cells in others.items()} == {
        CellState.FLAKY: [("a-3", nights(3)[2])],
        CellState.INFRA: [("a-4", nights(3)[2])],
        CellState.STALE: [("a-2", nights(3)[2])],
        CellState.MISSING: [("a-1", nights(3)[1])],
    }


def test_a_failure_that_no_check_could_say_has_its_reason() -> None:
    found = replace(history({"a-1": "·X"}), failures={})
    rows = found.cells["a-1"]
    row = replace(rows[found.last], reason="timed out after 1800 s")
    (each,) = look_back(replace(found, cells={"a-1": {**rows, found.last: row}})).broke
    assert (each.check, each.summary) == ("", "timed out after 1800 s")


def test_new_versions_are_counted_and_cells_that_are_gone_are_named() -> None:
    found = look_back(history({"a-1": "·····", "a-2": "·····", "b-1": "···· "}))
    assert found.updates == {("a", "1.0", "1.1"): 2}
    assert found.gone == ("b-1",)


def test_the_title_says_the_worst_in_one_sentence() -> None:
    titles = {
        "··X": "1 check broke in 1 cell",
        "·XX": "Nothing new broke; 1 cell still fails",
        "··~": "All is well in 1 cell",
        "··k": "All is well in 1 cell",
        "··-": "Nothing broke; 1 cell could not be judged",
        "··?": "Nothing broke; 1 cell could not be judged",
    }
    assert {said: entitle(look_back(history({"a-1": said}))) for said in titles} == titles


def test_the_title_counts_no_cell_that_was_judged_among_those_that_were_not() -> None:
    found = history({"a-1": "··-", "a-2": "··~", "a-3": "··B"})
    assert entitle(look_back(found)) == "Nothing broke; 1 cell could not be judged"
    states = [CellState.PASSED, CellState.FLAKY, CellState.BLOCKED]
    assert draw_states([("2026-11-21", states)]) is None


def test_a_night_is_well_only_where_every_cell_was_judged() -> None:
    well = {letter: look_back(history({"a-1": f"·{letter}"})).is_well for letter in "·k~BX?ILS-"}
    assert [letter for letter, is_well in well.items() if is_well] == [*"·k~B"]


def test_an_earlier_morning_knows_nothing_of_what_came_later() -> None:
    found = history({"a-1": "·X··"})
    assert broke(found.until(nights(4)[1])) == ["a-1"]
    assert look_back(found.until(nights(4)[2])).mended != ()
