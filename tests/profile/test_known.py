"""Entries of known problems: which problems they accept, and what is said of those that do not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import Level, Problem
from binary_checks.profile.known import (
    KnownProblem,
    accept,
    find_expired,
    find_stale,
    load_known_problems,
)

TODAY = date(2026, 11, 22)
ONE = Problem(path="demo/a.so", sentence="needs liba.so.1")
OTHER = Problem(path="demo/b.so", sentence="needs liba.so.1", level=Level.WARNING)


def known(**fields: object) -> KnownProblem:
    return KnownProblem(**{"check": "c", "reason": "issue 7", "listed": "k.toml[0]", **fields})  # type: ignore[arg-type]


def test_an_accepted_problem_says_until_when() -> None:
    (found,) = accept([ONE, OTHER], [known(path="*/a.so", expires=TODAY)], TODAY)
    assert (found.problem, found.reason, found.expires) == (ONE, "issue 7", "2026-11-22")


def test_of_several_entries_the_one_with_the_whole_sentence_is_named() -> None:
    entries = [known(reason="all of them"), known(reason="this one", match=ONE.sentence)]
    (found,) = accept([ONE], entries, TODAY)
    assert found.reason == "this one"


def test_an_expired_entry_says_when_it_expired_and_what_is_still_there() -> None:
    (found,) = find_expired([known(expires=date(2026, 11, 21))], [ONE, OTHER], TODAY)
    assert found.sentence == (
        "known problem 'issue 7' expired on 2026-11-21, and 2 problems that it accepted are still "
        "there; fix that, or renew it (k.toml[0])"
    )
    assert found.level is Level.ERROR


def test_an_expired_entry_matters_no_more_than_its_problems() -> None:
    (found,) = find_expired([known(expires=date(2026, 11, 21))], [OTHER], TODAY)
    assert "1 problem that it accepted is still there" in found.sentence
    assert found.level is Level.WARNING


def test_an_expired_entry_whose_problem_is_gone_is_stale() -> None:
    old = known(path="demo/gone.so", expires=date(2026, 11, 21))
    assert list(find_expired([old], [ONE], TODAY)) == []
    (found,) = find_stale([old, known()], [ONE])
    assert found.sentence == (
        "known problem 'issue 7' for demo/gone.so matched nothing; remove it (k.toml[0])"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[known_problems]\n", "not TOML: Expected "),
        ("\xff", "not TOML: 'utf-8' codec can't decode"),
        ("objects = 1\n", "unknown key 'objects'"),
        ("known_problem = []\n", "unknown key 'known_problem'; did you mean 'known_problems'?"),
        ("known_problems = 1\n", "known_problems: 1 is not an array of tables"),
        ("known_problems = [1]\n", "known_problems[0]: not a table"),
        ("[[known_problems]]\ncheck = 'c'\n", "known_problems[0]: 'reason' is missing"),
        (
            "[[known_problems]]\ncheck = 'c'\nreason = 'r'\nexpiry = 1\n",
            "known_problems[0]: unknown key 'expiry'; did you mean 'expires'?",
        ),
        (
            "[[known_problems]]\ncheck = 'c'\nreason = 'r'\nlisted = 'x'\n",
            "known_problems[0]: unknown key 'listed'",
        ),
        (
            "[[known_problems]]\ncheck = 'c'\nreason = 'r'\nexpires = 'soon'\n",
            "known_problems[0]: expires: 'soon' is not a date",
        ),
    ],
)
def test_a_list_that_cannot_be_followed_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "k.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ProfileError) as refusal:
        load_known_problems(path, "my/k.toml")
    assert str(refusal.value).startswith(f"known problems my/k.toml: {said}")


def test_a_list_that_is_a_folder_or_gone_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.toml"):
        with pytest.raises(ProfileError, match="known problems k: "):
            load_known_problems(path, "k")


def test_a_list_without_end_is_not_read_to_it(tmp_path: Path) -> None:
    with (tmp_path / "known.toml").open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ProfileError, match="more than 16,777,216 bytes"):
        load_known_problems(tmp_path / "known.toml", "known.toml")
