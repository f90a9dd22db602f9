"""Names in a sentence are few and short."""

from __future__ import annotations

from binary_checks.wording.sentences import name_first


def test_the_first_names_are_shown_and_the_rest_counted() -> None:
    assert name_first(("a", "b")) == "a, b"
    assert name_first(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"
    assert name_first(("a", "b"), 1) == "a and 1 more"


def test_a_long_name_is_cut() -> None:
    assert name_first(("n" * 1000,)) == "n" * 157 + "..."
