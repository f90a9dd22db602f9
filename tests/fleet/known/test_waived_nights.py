"""Entries without a match for five nights, and those for which that is unknown."""

from __future__ import annotations

from datetime import date, timedelta

from binary_checks.fleet.known import WaivedNight, find_removable
from binary_checks.fleet.night import Cell, PlannedCell
from binary_checks.model import Problem
from binary_checks.profile import KnownList, KnownProblem, read_condition

LAST = date(2026, 11, 20)
ENTRY = KnownProblem(check="missing-library", reason="issue 7", match="libfoo.so.1")
PLANNED = PlannedCell(
    cell=Cell(id="demo-3.13", project="demo", python="3.13"), file_name="demo-1.0-py3-none-any.whl"
)


def night(
    ago: int,
    *,
    said: str = "",
    entries: tuple[KnownProblem, ...] = (ENTRY,),
    unjudged: tuple[PlannedCell, ...] = (),
) -> WaivedNight:
    """A night so many days ago, in which one problem was accepted, or none."""
    found = (PLANNED.cell, PLANNED.file_name, Problem(sentence=said))
    return WaivedNight(
        night=str(LAST - timedelta(days=ago)),
        listed=KnownList(entries=entries),
        accepted={key: [found] for key in ((ENTRY.check, None), (ENTRY.check, (said,)))}
        if said
        else {},
        unjudged=unjudged,
    )


def test_what_matches_nothing_for_five_nights_is_to_be_removed() -> None:
    assert find_removable([ENTRY], [night(ago) for ago in range(5)]) == [ENTRY]
    assert find_removable([ENTRY], [night(ago) for ago in range(4)]) == []
    for ago in range(5):  # a match in any of them keeps it
        nights = [night(each, said="needs libfoo.so.1" if each == ago else "") for each in range(9)]
        assert find_removable([ENTRY], nights) == []


def test_another_problem_or_one_in_another_cell_or_package_is_no_match() -> None:
    assert find_removable([ENTRY], [night(ago, said="needs libbar") for ago in range(5)]) == [ENTRY]
    for entry in (
        KnownProblem(
            check=ENTRY.check, reason="x", cells=read_condition("python=3.12", "the entry's cells")
        ),
        KnownProblem(check=ENTRY.check, reason="x", package="other-*"),
    ):
        nights = [night(ago, said="needs libfoo.so.1", entries=(entry,)) for ago in range(5)]
        assert find_removable([entry], nights) == [entry]


def test_a_night_that_did_not_judge_a_cell_of_the_entry_does_not_count() -> None:
    nights = [night(0, unjudged=(PLANNED,)), *(night(ago) for ago in range(1, 5))]
    assert find_removable([ENTRY], nights) == []
    assert find_removable([ENTRY], [*nights, night(5)]) == [ENTRY]
    entry = KnownProblem(check="x", reason="x", package="other-*")
    nights = [night(ago, entries=(entry,), unjudged=(PLANNED,)) for ago in range(5)]
    assert find_removable([entry], nights) == [entry]


def test_nights_before_an_entry_was_listed_or_had_other_cells_say_nothing_of_it() -> None:
    nights = [*(night(ago) for ago in range(4)), night(4, entries=()), night(5)]
    assert find_removable([ENTRY], nights) == []
    later = KnownProblem(check=ENTRY.check, reason="renewed", match=ENTRY.match, owner="a")
    assert find_removable([later], [night(ago) for ago in range(5)]) == [later]
    narrower = KnownProblem(
        check=ENTRY.check, reason="x", match=ENTRY.match, cells=read_condition("id=a", "cells")
    )
    assert find_removable([narrower], [night(ago) for ago in range(5)]) == []


def test_of_a_night_after_it_expired_nothing_is_known() -> None:
    ended = KnownProblem(check="c", reason="x", expires=LAST - timedelta(days=1))
    nights = [night(ago, entries=(ended,)) for ago in range(5)]
    assert find_removable([ended], nights) == []
    assert find_removable([ended], [*nights, night(5, entries=(ended,))]) == [ended]
