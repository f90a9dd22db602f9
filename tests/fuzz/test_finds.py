"""What fuzzing found, and what has been mended since: every find that is kept stays red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from fixtures.fuzz.finds import KEPT, read, rebuild
from fixtures.fuzz.seeds import Seed
from fixtures.fuzz.targets import KINDS, Target

KIND = {kind.name: kind for kind in KINDS}
FINDS = [(path.stem, find) for path in sorted(KEPT.glob("*.jsonl")) for find in read(path)]


def name(value: object) -> str:
    return value if isinstance(value, str) else ""


@cache
def seeds_of(target: str) -> dict[str, Seed]:
    return {seed.name: seed for seed in KIND[target].find_seeds(None)}


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[str, Target]]:
    judges = {target: KIND[target].open() for target in {target for target, _ in FINDS}}
    yield judges
    for judge in judges.values():
        judge.close()


@pytest.mark.parametrize(("target", "find"), FINDS, ids=name)
def test_what_was_found_is_red(
    judges: dict[str, Target], target: str, find: Mapping[str, Any]
) -> None:
    seed = seeds_of(target)[find["seed"]]
    content = rebuild(find, seed.content)
    assert content != seed.content
    assert judges[target].problems(seed, content), f"{find['fields']}: {find['said']}"
