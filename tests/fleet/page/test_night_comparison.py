"""A night compared with those before."""

from __future__ import annotations

from dataclasses import replace

from binary_checks.fleet.page.charts import draw_states
from binary_checks.fleet.page.morning import Morning, read_morning, write_mail
from binary_checks.fleet.page.night_reading import NightView
from fixtures.histories import fail, history, nights, update


def broke(found: NightView) -> list[str]:
    return [cell for each in read_morning(found).answers["newly-broken"] for cell in each["cells"]]


def still(found: NightView) -> list[tuple[str, str]]:
    rows = read_morning(found).answers["still-broken"]
    return [(cell, each["since"]) for each in rows for cell in each["cells"]]


def title(found: NightView) -> str:
    return write_mail(read_morning(found)).splitlines()[0].partition(": ")[2]


def faults(morning: Morning) -> list[tuple[list[str], str, int]]:
    rows = morning.answers["newly-broken"]
    return [(each["projects"], each["check_id"], each["number"]) for each in rows]


def checks(found: NightView) -> list[str]:
    return [each["check_id"] for each in read_morning(found).answers["newly-broken"]]


def test_a_cell_that_fails_after_a_pass_or_in_its_first_night_is_newly_broken() -> None:
    assert broke(history({"a-1": "··X", "a-2": "···"})) == ["a-1"]
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
    fail(found, "a-1", found.night, "import-fails", said="import a fails")
    (new,) = read_morning(found).answers["newly-broken"]
    assert (new["check_id"], new["since"]) == ("import-fails", found.night)
    assert still(found) == [("a-1", nights(3)[1])]


def test_of_checks_that_say_one_fault_only_the_one_that_leads_is_named() -> None:
    found = history({"a-1": "·X"})
    fail(found, "a-1", found.night, "malformed-object", said="is cut off", leads=False)
    assert checks(found) == ["missing-library"]
    update_leads = "UPDATE all_checks SET leads = false"
    found.connection.execute(update_leads)
    assert checks(found) == ["malformed-object", "missing-library"]


def test_a_cause_that_is_a_check_which_failed_is_not_said_twice() -> None:
    found = history({"a-1": "·X"})
    for cause, said in {
        "missing-library": "",
        "unknown": "",
        "glibc-too-old": "glibc-too-old",
    }.items():
        update(found, cause=cause)
        (each,) = read_morning(found).answers["newly-broken"]
        assert each["cause"] == said


def test_cells_and_projects_in_which_a_check_says_the_very_same_are_one_breakage() -> None:
    found = history({"a-1": "·X", "a-2": "·X", "a-3": "·X"}, checks={"a-3": "other"})
    assert faults(read_morning(found)) == [(["a"], "missing-library", 2), (["a"], "other", 1)]
    found = history({"a-1": "·X", "b-1": "·X", "c-1": "·X"}, checks={"c-1": "other"})
    assert [projects for projects, _, _ in faults(read_morning(found))] == [["a", "b"], ["c"]]


def test_a_cell_that_failed_and_passes_is_mended() -> None:
    (cell,) = read_morning(history({"a-1": "·XXI·", "a-2": "·····"})).answers["mended"]
    assert (cell["cell"], cell["since"]) == ("a-1", nights(5)[1])


def test_what_neither_passed_nor_failed_is_listed_by_state_with_its_first_night() -> None:
    found = history({"a-1": "·--", "a-2": "··S", "a-3": "··~", "a-4": "XXI"})
    rows = read_morning(found).answers["undecided"]
    assert [(row["state"], row["cell"], row["since"]) for row in rows] == [
        ("flaky", "a-3", nights(3)[2]),
        ("infra", "a-4", nights(3)[2]),
        ("missing", "a-1", nights(3)[1]),
        ("stale", "a-2", nights(3)[2]),
    ]


def test_a_failure_that_no_check_could_say_has_its_reason() -> None:
    found = history({"a-1": "·X", "a-2": "XX"})
    found.connection.execute("DELETE FROM all_checks")
    update(found, reason="timed out after 1800 s")
    (each,) = read_morning(found).answers["newly-broken"]
    assert (each["check_id"], each["summary"]) == ("", "timed out after 1800 s")
    assert [cell for cell, _ in still(found)] == ["a-2"]


def test_new_versions_are_counted_and_cells_that_are_gone_are_named() -> None:
    found = read_morning(history({"a-1": "·····", "a-2": "·····", "b-1": "···· "}))
    assert found.answers["new-versions"] == [
        {"project": "a", "version_before": "1.0", "version": "1.1", "cells": 2}
    ]
    assert [row["cell"] for row in found.answers["departed"]] == ["b-1"]


def test_the_title_says_the_worst_in_one_sentence() -> None:
    titles = {
        "··X": "1 check broke in 1 cell",
        "·XX": "Nothing new broke; 1 cell still fails",
        "··~": "All is well in 1 cell",
        "··k": "All is well in 1 cell",
        "··-": "Nothing broke; 1 cell could not be judged",
        "··?": "Nothing broke; 1 cell could not be judged",
    }
    assert {said: title(history({"a-1": said})) for said in titles} == titles


def test_the_title_counts_no_cell_that_was_judged_among_those_that_were_not() -> None:
    found = history({"a-1": "··-", "a-2": "··~", "a-3": "··B"})
    assert title(found) == "Nothing broke; 1 cell could not be judged"
    well = history({"a-1": "·", "a-2": "~", "a-3": "B"})
    assert draw_states([*well.ask("trends")]) is None


def test_a_night_is_well_only_where_every_cell_was_judged() -> None:
    well = {letter: read_morning(history({"a-1": f"·{letter}"})).is_well for letter in "·k~BX?ILS-"}
    assert [letter for letter, is_well in well.items() if is_well] == [*"·k~B"]


def test_an_earlier_morning_knows_nothing_of_what_came_later() -> None:
    found = history({"a-1": "·X··"})
    assert broke(replace(found, night=nights(4)[1])) == ["a-1"]
    assert read_morning(replace(found, night=nights(4)[2])).answers["mended"]
