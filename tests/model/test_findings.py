"""A problem has the less severe of two levels."""

from __future__ import annotations

import pytest

from binary_checks.model import Level


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
