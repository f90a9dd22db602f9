from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fuzz import installers
from fixtures.fuzz.target_zip import Target
from fixtures.fuzz.zip_seeds import find_structures
from fixtures.fuzz.zip_structure import MAKERS, MIXED, make_structure

SEEDS = {seed.name.partition(" ")[0]: seed for seed in find_structures(None)}
STORED = SEEDS["stored"]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.setattr(installers, "find_uv", lambda: None)  # a process, for the slow tests
    target = Target()
    yield target
    target.close()


@pytest.mark.parametrize("name", SEEDS)
def test_every_seed_is_healthy(target: Target, name: str) -> None:
    seed = SEEDS[name]
    assert not target.problems(seed, seed.content)
    (opinion,) = target.ask(seed, [seed.content], [False])
    assert opinion is not None
    assert opinion.accepted, opinion.said


@pytest.mark.parametrize("kind", [*MAKERS, MIXED])
def test_a_number_makes_the_same_mutant_again(kind: str) -> None:
    made = [make_structure(kind, STORED, number) for number in range(5)]
    assert made == [make_structure(kind, STORED, number) for number in range(5)]
    assert STORED.content not in {mutant.content for mutant in made}
    assert all(mutant.damage for mutant in made)


@pytest.mark.parametrize("kind", [*MAKERS, MIXED])
def test_what_pip_and_zipfile_read_differently_is_red(target: Target, kind: str) -> None:
    for number in range(20):
        content = make_structure(kind, STORED, number).content
        if not target.problems(STORED, content):
            (opinion,) = target.ask(STORED, [content], [False])
            assert opinion is not None
            assert opinion.accepted or opinion.excuse, (kind, number, opinion.said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*MAKERS, MIXED])
def test_what_uv_reads_differently_is_red(kind: str) -> None:
    if installers.find_uv() is None:
        pytest.skip("there is no uv")
    target = Target()
    for number in range(20):
        content = make_structure(kind, STORED, number).content
        if not target.problems(STORED, content):
            (opinion,) = target.ask(STORED, [content], [False])
            assert opinion is not None
            assert opinion.accepted or opinion.excuse, (kind, number, opinion.said)
    target.close()
