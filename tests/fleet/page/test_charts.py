"""Charts: axes with round values, and nights labelled where their bars and points are."""

from __future__ import annotations

import pytest

from binary_checks.fleet.page.charts import Chart, draw_numbers, draw_stacks, draw_states
from binary_checks.fleet.page.naming import format_seconds
from binary_checks.reports.html.templating import format_size
from fixtures.histories import nights


def line(*values: float, durations: bool = False) -> Chart:
    format_number = format_seconds if durations else format_size
    days = nights(len(values))
    rows = [{"night": night, "n": value} for night, value in zip(days, values, strict=True)]
    found = draw_numbers(rows, "n", format_number, durations=durations)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (1_900_000_000, ["0", "500 MB", "1 GB", "1.5 GB", "2 GB"]),
        (2_000_000_000, ["0", "500 MB", "1 GB", "1.5 GB", "2 GB"]),
        (41_000_000, ["0", "20 MB", "40 MB", "60 MB"]),
    ],
)
def test_sizes_have_round_values(highest: float, labels: list[str]) -> None:
    assert [label for _, label in line(1.0, highest)["levels"]] == labels


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (0.7, ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s"]),
        (34, ["0", "10 s", "20 s", "30 s", "40 s"]),
        (280, ["0", "2 min", "4 min", "6 min"]),
        (9000, ["0", "60 min", "2.0 h", "3.0 h"]),
    ],
)
def test_times_have_values_that_are_round_in_their_unit(highest: float, labels: list[str]) -> None:
    assert [label for _, label in line(0.1, highest, durations=True)["levels"]] == labels


@pytest.mark.parametrize(
    ("failed", "labels"),
    [
        (1, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (9, ["0", "5", "10"]),
        (90, ["0", "25", "50", "75", "100"]),
    ],
)
def test_cells_are_counted_in_whole_numbers(failed: int, labels: list[str]) -> None:
    found = draw_states([{"night": "2026-11-21", "failed": failed, "unjudged": 0}])
    assert found is not None
    assert [label for _, label in found["levels"]] == labels


def test_the_axis_reaches_from_the_bottom_to_the_highest_value() -> None:
    found = line(10e6, 20e6)
    assert found["levels"][0][0] == found["height"]
    assert found["levels"][-1][0] == 0
    assert found["bars"][-1][1] == 0


def test_nights_without_a_number_are_left_out() -> None:
    assert [label for _, label, _ in line(0.0, 5.0)["days"]] == [nights(2)[1]]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_few_nights_are_labelled_below_the_middle_of_their_bars(number: int) -> None:
    found = draw_stacks([(night, {"native": 5.0}) for night in nights(number)], format_size)
    assert found is not None
    assert [label for _, label, _ in found["days"]] == [*nights(number)]
    middles = [x + width / 2 for x, _, width, *_ in found["bars"]]
    assert middles == pytest.approx([x for x, *_ in found["days"]], abs=0.2)


def test_of_many_nights_the_first_the_middle_and_the_last_are_labelled() -> None:
    found = draw_stacks([(night, {"native": 5.0}) for night in nights(30)], format_size)
    assert found is not None
    days = nights(30)
    assert [label for _, label, _ in found["days"]] == [days[0], days[14], days[29]]
    first, last = found["bars"][0], found["bars"][-1]
    assert first[0] < 2
    assert found["width"] - 2 < last[0] + last[2] <= found["width"]


def test_one_night_is_a_bar_and_its_value() -> None:
    found = line(3_000_000)
    assert (len(found["bars"]), found["summary"]) == (1, "3 MB")
    assert draw_numbers([], "n", format_size) is None
