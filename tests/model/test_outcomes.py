"""The words for results follow from the outcomes as docs/results.md states."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import errors
from binary_checks.model import (
    BROKE,
    GAPS,
    GOOD_OUTCOMES,
    JUDGED,
    VERDICTS,
    CellState,
    Outcome,
    choose_cell_state,
    choose_exit_code,
)

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading of the page."""
    section = (
        PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_page_has_the_words_of_every_verdict() -> None:
    stated = [(verdict, *words) for verdict, _, *words in table("Packages")]
    assert stated == [
        (verdict.value, words.fitness.value, words.word, words.label)
        for verdict, words in VERDICTS.items()
    ]


def test_the_page_has_every_outcome_of_a_check() -> None:
    assert [row[0] for row in table("Checks")] == [
        outcome.value for outcome in Outcome if outcome is not Outcome.NOT_JUDGED
    ]


def test_the_page_has_every_exit_code_by_its_name() -> None:
    rows = table("Runs")
    assert {int(code) for code, *_ in rows} == {*errors.EXIT_CODES}
    for code, name, _ in rows:
        assert getattr(errors, name.strip("`")) == int(code)


def test_what_is_judged_is_no_gap() -> None:
    assert JUDGED | GAPS | {Outcome.NOT_JUDGED, Outcome.NOT_APPLICABLE} == {*Outcome}
    assert not JUDGED & GAPS
    assert BROKE < GAPS
    assert GOOD_OUTCOMES < JUDGED


@pytest.mark.parametrize(
    ("outcomes", "known", "code"),
    [
        ({Outcome.PASSED}, {}, errors.FIT),
        ({Outcome.FAILED, Outcome.BROKEN, Outcome.ERROR}, {}, errors.PROBLEMS),
        ({Outcome.FAILED}, {"in_doubt": True}, errors.TRY_AGAIN),
        ({Outcome.FAILED, Outcome.BROKEN}, {"in_doubt": True}, errors.OUR_BUG),
        ({Outcome.PASSED, Outcome.BROKEN}, {"unfit": True}, errors.PROBLEMS),
        ({Outcome.BROKEN, Outcome.ERROR}, {}, errors.OUR_BUG),
        ({Outcome.ERROR}, {}, errors.TRY_AGAIN),
        ({Outcome.WARNED}, {"broke": True}, errors.TRY_AGAIN),
    ],
)
def test_the_first_exit_code_that_holds_is_the_runs(
    outcomes: set[Outcome], known: dict[str, bool], code: int
) -> None:
    about = {"unfit": False, "in_doubt": False, "broke": False, **known}
    assert choose_exit_code(outcomes, **about) == code


@pytest.mark.parametrize("exit_code", errors.EXIT_CODES)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_cell_passes_by_exit_code_and_verdict_alone(exit_code: int, verdict: Outcome) -> None:
    state = choose_cell_state(exit_code, verdict, accepts=False)
    passes = exit_code == errors.FIT and verdict in GOOD_OUTCOMES
    assert (state is CellState.PASSED) == passes
    assert choose_cell_state(exit_code, verdict, accepts=True) is (
        CellState.KNOWN if passes else state
    )
