from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fuzz import target_facts, target_profile, text_mutation
from fixtures.fuzz.target_facts import demand_one_line

FACTS = next(iter(target_facts.find_seeds(None)))
PROFILE = next(iter(target_profile.find_seeds(None)))


@pytest.fixture
def facts() -> Iterator[target_facts.Target]:
    target = target_facts.Target()
    yield target
    target.close()


@pytest.fixture
def profile() -> Iterator[target_profile.Target]:
    target = target_profile.Target()
    yield target
    target.close()


def test_the_same_number_makes_the_same_text() -> None:
    first = [text_mutation.make_mutant(FACTS, number, (FACTS,)) for number in range(200)]
    again = [text_mutation.make_mutant(FACTS, number, (FACTS,)) for number in range(200)]
    assert [mutant.content for mutant in first] == [mutant.content for mutant in again]
    assert len({mutant.content for mutant in first}) > 150


def test_what_inspect_writes_is_taken_and_says_all(facts: target_facts.Target) -> None:
    assert not facts.problems(FACTS, FACTS.content)
    (opinion,) = facts.ask(FACTS, [FACTS.content], [False])
    assert opinion is not None
    assert opinion.accepted


def test_a_document_that_is_not_one_is_refused(facts: target_facts.Target) -> None:
    (line,) = facts.problems(FACTS, FACTS.content[:-9])
    assert "facts.json: " in line


def test_a_loss_would_be_found(facts: target_facts.Target, monkeypatch: pytest.MonkeyPatch) -> None:
    other = list(target_facts.find_seeds(None))[1]
    facts._path.write_bytes(other.content)
    stated = target_facts.restore(facts._path)
    monkeypatch.setattr(target_facts, "restore", lambda _: stated)
    (opinion,) = facts.ask(FACTS, [FACTS.content], [False])
    assert opinion is not None
    assert not opinion.accepted


def test_the_example_is_taken_by_us_and_by_the_schema(profile: target_profile.Target) -> None:
    assert not profile.problems(PROFILE, PROFILE.content)
    (opinion,) = profile.ask(PROFILE, [PROFILE.content], [False])
    assert opinion is not None
    assert opinion.accepted


@pytest.mark.parametrize(
    "odd", [b'objects = "1"', b"colour = 1", b'extends = "default"\nextends = ""']
)
def test_what_is_no_profile_is_refused(profile: target_profile.Target, odd: bytes) -> None:
    assert profile.problems(PROFILE, odd)


@pytest.mark.parametrize("odd", [b'objects = "1"', b"colour = 1", b'enable = ["not-a-check"]'])
def test_the_schema_says_so_too(profile: target_profile.Target, odd: bytes) -> None:
    (opinion,) = profile.ask(PROFILE, [odd], [False])
    assert opinion is not None
    assert not opinion.accepted


def test_an_error_is_one_line_that_people_read() -> None:
    assert demand_one_line(ValueError("no such key")) == "no such key"
    for text in ("two\nlines", "\x1b[31m", "long" * 200):
        with pytest.raises(ValueError, match=r"line"):
            demand_one_line(ValueError(text))


@pytest.mark.parametrize(
    "odd",
    [
        b'enable = ["' + b"a" * 5000 + b'"]',
        b'"' + b"k" * 5000 + b'" = 1',
        b'[options."' + b"a" * 5000 + b'"]',
        b'[[known_problems]]\ncheck = "' + b"c" * 5000 + b'"\nreason = "r"',
    ],
)
def test_a_name_without_end_is_shown_in_part(profile: target_profile.Target, odd: bytes) -> None:
    (line,) = profile.problems(PROFILE, odd)  # which holds it to 500 characters
    assert "unknown" in line
