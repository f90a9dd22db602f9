"""A profile is identified by its contents, independent of its location and order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from binary_checks.model import Level
from binary_checks.profile import KnownProblem, Profile, identify_profile

ONE, OTHER = KnownProblem(check="c", reason="r"), KnownProblem(check="d", reason="s")


def test_every_word_counts_and_not_where_it_lies() -> None:
    plain = identify_profile(Profile()).sha256
    elsewhere = identify_profile(Profile(source="there.toml"))
    assert (elsewhere.source, elsewhere.sha256) == ("there.toml", plain)
    for changed in (
        Profile(enable=frozenset({"a"})),
        Profile(strict=True),
        Profile(options={"a": {"b": 1}}),
        Profile(objects=1),
    ):
        assert identify_profile(changed).sha256 != plain


def test_the_order_of_sets_tables_and_known_problems_does_not_count() -> None:
    one = Profile(options={"a": {}, "b": {}}, known_problems=(ONE, OTHER))
    other = Profile(options={"b": {}, "a": {}}, known_problems=(OTHER, ONE))
    assert identify_profile(one) == identify_profile(other)


def test_the_order_of_levels_counts_as_the_first_that_matches_holds() -> None:
    a, b = ("a*", Level.OFF), ("*b", Level.WARNING)
    one, other = (identify_profile(Profile(levels={"c": dict(p)})) for p in ((a, b), (b, a)))
    assert one != other


def test_known_problems_have_a_hash_of_their_own() -> None:
    without, with_one = (
        identify_profile(Profile()),
        identify_profile(Profile(known_problems=(ONE,))),
    )
    assert without.sha256 == with_one.sha256
    assert without.known_problems_sha256 != with_one.known_problems_sha256


def test_checks_of_its_own_count_by_their_bytes(tmp_path: Path) -> None:
    for name, text in (("a.py", "x"), ("b.py", "x"), ("c.py", "y")):
        (tmp_path / name).write_text(text)
    a, b, c = (
        identify_profile(replace(Profile(), checks=(tmp_path / name,))).sha256
        for name in ("a.py", "b.py", "c.py")
    )
    assert a == b != c
