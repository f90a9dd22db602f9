"""Findings have an order, and a problem has the less severe of two levels."""

from __future__ import annotations

import pytest

from binary_checks.model import Level, Note, NotInspected, Problem


@pytest.mark.parametrize(
    ("one", "other", "less_severe"),
    [
        (Level.ERROR, Level.ERROR, Level.ERROR),
        (Level.ERROR, Level.WARNING, Level.WARNING),
        (Level.OFF, Level.WARNING, Level.OFF),
    ],
)
def test_the_less_severe_of_two_levels_is_returned(
    one: Level, other: Level, less_severe: Level
) -> None:
    assert one.less_severe(other) is other.less_severe(one) is less_severe


@pytest.mark.parametrize("kind", [Problem, NotInspected, Note])
def test_findings_are_listed_by_path_and_then_by_sentence(
    kind: type[Problem | NotInspected | Note],
) -> None:
    texts = [("b.so", "a"), ("a.so", "y"), ("", "z"), ("a.so", "x")]
    found = sorted(kind(path=path, sentence=sentence) for path, sentence in texts)
    assert [(each.path, each.sentence) for each in found] == sorted(texts)
