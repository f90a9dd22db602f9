from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.fleet.store import open_store
from binary_checks.fleet.tables.table_questions import ask, shipped_queries
from binary_checks.fleet.tables.views import open_tables
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.query_page import QUERIES
from fixtures.fleet.script_of_nights import ROLES, middle

CELLS, NIGHTS = 8, 6
Row = dict[str, Any]
Ask = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("nights") / "store", CELLS, NIGHTS)


@pytest.fixture(scope="module")
def connection(nights: Nights) -> Iterator[Any]:
    with open_tables(open_store(str(nights.folder))) as connection:
        yield connection


@pytest.fixture
def answer(connection: Any) -> Ask:
    def answer(name: str, **given: str) -> list[Row]:
        with ask(connection, shipped_queries()[name].sql, given, ours=True) as found:
            return [
                {
                    name: str(value) if hasattr(value, "isoformat") else value
                    for name, value in zip(found.columns, row, strict=True)
                }
                for row in found.rows
            ]

    return answer


def test_each_query_describes_itself_and_its_parameters() -> None:
    queries = shipped_queries()
    assert [*queries] == sorted(queries)
    assert len(queries) == 23
    for name, query in queries.items():
        assert query.description.endswith("."), name
        named = {f"${each}" for each in query.parameters}
        assert all(query.sql.count(each) >= 2 for each in named), name


def test_newly_broken_is_what_broke_tonight_and_nothing_else(nights: Nights, answer: Ask) -> None:
    (row,) = answer("newly-broken")
    summary = row["summary"]
    assert row == {
        "night": nights.tonight,
        "check_id": "missing-library",
        "projects": [nights.cells[ROLES.breaks_tonight].project],
        "number": 1,
        "since": nights.tonight,
        "known": True,
        "summary": summary,
        "sentences": 1,
        "cause": "",
        "version": "1.2",
        "last_good": nights.nights[-2],
        "good_version": "1.1",
        "same_file": False,
        "cells": [nights.cell(ROLES.breaks_tonight)],
    }
    assert summary.startswith("demo/_native.so: needs libfoo.so.1, which neither")


def test_what_broke_in_earlier_nights_is_still_broken_and_found_among_several_nights(
    nights: Nights, answer: Ask
) -> None:
    (row,) = answer("still-broken")
    assert row["cells"] == [nights.cell(ROLES.broken_since)]
    assert (row["since"], row["known"]) == (nights.nights[middle(NIGHTS)], True)
    broke = {each["night"]: each["cells"] for each in answer("newly-broken", days=str(NIGHTS))}
    assert broke[row["since"]] == row["cells"]
    assert answer("mended", days=str(NIGHTS)) == []


def test_the_states_of_all_projects_add_up_to_the_trends(nights: Nights, answer: Ask) -> None:
    states = answer("states")
    assert sum(row["cells"] for row in states if row["project"] is None) == CELLS
    assert sum(row["cells"] for row in states if row["project"] is not None) == CELLS
    whole = [row for row in answer("trends") if row["project"] is None]
    assert [row["night"] for row in whole] == [*nights.nights]
    assert (whole[-1]["cells"], whole[-1]["failed"], whole[-1]["unjudged"]) == (CELLS, 2, 2)


def test_the_pages_own_examples_are_answered(connection: Any) -> None:
    page = QUERIES.read_text(encoding="utf-8").partition("## Questions of your own")[2]
    sql = page.partition("```sql")[2].partition("```")[0]
    questions = [each for each in sql.split(";") if each.strip()]
    assert len(questions) == 3
    for question in questions:
        with ask(connection, question, {}) as answer:
            assert answer.columns


def test_the_first_bad_night_lies_between_two_builds(nights: Nights, answer: Ask) -> None:
    tonight, before = answer("first-bad-night")
    assert tonight["cell"] == nights.cell(ROLES.breaks_tonight)
    assert tonight["first_bad"] == nights.tonight
    assert before["cell"] == nights.cell(ROLES.broken_since)
    assert before["first_bad"] == nights.nights[middle(NIGHTS)]
    assert before["last_good"] == nights.nights[middle(NIGHTS) - 1]
    assert (before["good_version"], before["bad_version"]) == ("1.0", "1.1")
    assert before["nights"] == NIGHTS - middle(NIGHTS)
    assert before["good_sha256"] != before["bad_sha256"]


def test_flaky_cells_are_counted(nights: Nights, answer: Ask) -> None:
    (row,) = answer("flaky")
    assert row["cell"] == nights.cell(ROLES.flaky)
    assert (row["flaky"], row["nights"], row["last_flaky"]) == (1, NIGHTS, nights.nights[-2])
    assert answer("flaky", days="1") == []


def test_a_size_jump_names_the_part_that_grew(nights: Nights, answer: Ask) -> None:
    (row,) = answer("size-jumps")
    assert row["cell"] == nights.cell(ROLES.grows)
    assert (row["night"], row["percent"]) == (nights.tonight, 100.0)
    assert row["size"] > 1.9 * row["size_before"]
    assert row["part"] == "native code"
    assert 0 < row["part_change"] < row["size"] - row["size_before"]
    assert answer("size-jumps", percent="200") == []


def test_missing_tells_stale_from_missing_and_since_when(nights: Nights, answer: Ask) -> None:
    found = {row["cell"]: row for row in answer("missing")}
    assert found.keys() == {nights.cell(ROLES.missing), nights.cell(ROLES.troubled)}
    absent, old = found[nights.cell(ROLES.missing)], found[nights.cell(ROLES.troubled)]
    assert (absent["state"], absent["since"], absent["nights"]) == ("missing", nights.tonight, 1)
    assert absent["version"] == ""
    assert absent["last_version"].startswith("1.")
    assert (old["state"], old["reason"]) == ("stale", "published 9 days ago; the source allows 3")


def test_the_slowest_come_first_with_their_slowest_check(answer: Ask) -> None:
    rows = answer("slowest", rows="3")
    assert len(rows) == 3
    assert rows[0]["seconds"] >= rows[1]["seconds"] >= rows[2]["seconds"] > rows[0]["check_seconds"]
    assert all(row["median"] > 0 and row["check_id"] and row["installing"] > 0 for row in rows)


def test_the_grid_has_a_letter_a_night_and_what_is_wrong_first(nights: Nights, answer: Ask) -> None:
    rows = answer("grid")
    letters = {row["cell"]: row["nights"] for row in rows}
    assert letters == {
        nights.cell(ROLES.grows): "······",
        nights.cell(ROLES.breaks_tonight): "·····X",
        nights.cell(ROLES.broken_since): "···XXX",
        nights.cell(ROLES.flaky): "····~·",
        nights.cell(ROLES.missing): "·····\N{EN DASH}",
        nights.cell(ROLES.troubled): "·LI··S",
        nights.cell(ROLES.blocked): "·····B",
        nights.cell(ROLES.known): "kkkkkk",
    }
    assert rows[0]["cell"] == nights.cell(ROLES.breaks_tonight)
    assert rows[1]["cell"] == nights.cell(ROLES.broken_since)
    assert [row["nights"] for row in answer("grid", rows="1", cell=nights.cell(ROLES.flaky))] == [
        "·"
    ]


def test_the_first_night_without_an_architecture(nights: Nights, answer: Ask) -> None:
    (row,) = answer("architecture-dropped")
    assert row["cell"] == nights.cell(ROLES.grows)
    assert row["first_without"] == nights.nights[middle(NIGHTS)]
    assert row["last_with"] == nights.nights[middle(NIGHTS) - 1]
    assert (row["version_with"], row["version_without"]) == ("1.0", "1.1")
    assert row["whole_package"] is True
    assert row["objects"] >= 1
    assert row["first_object"].endswith("_native0.so")
    assert answer("architecture-dropped", architecture="sm_90") == []


def test_who_needs_a_version_of_glibc(nights: Nights, answer: Ask) -> None:
    for version in ("2.34", "GLIBC_2.34", "2.18"):
        (row,) = answer("needs-glibc", version=version)
        assert (row["cell"], row["glibc"]) == (nights.cell(ROLES.grows), "2.34")
    assert answer("needs-glibc", version="2.35") == []
    assert len(answer("needs-glibc", version="2.9")) > 3  # 2.17 is later
    assert answer("needs-glibc", night=nights.nights[0]) == []


def test_sizes_add_up_by_part_and_build(nights: Nights, answer: Ask) -> None:
    rows = answer("sizes", cell=nights.cell(ROLES.grows))
    assert [row["version"] for row in rows] == ["1.0", "1.1", "1.2"]
    for row in rows:
        own = {name: row[name] for name in row if name not in _ABOUT_BUILD}
        assert sum(own.values()) == row["installed"]
        assert own["native_code"] >= own["device_code"] > 0
    assert rows[2]["file"] > 1.9 * rows[1]["file"]


_ABOUT_BUILD = ("cell", "night", "version", "file", "installed")
