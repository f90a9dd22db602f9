from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from fixtures.fuzz import workers
from fixtures.fuzz.outcomes import Opinion
from fixtures.fuzz.seeds import Seed
from fixtures.fuzz.targets import Kind
from fixtures.fuzz.workers import Plan, run


class Careful:
    """Takes everything, unless that ends the process."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def problems(self, seed: Seed, content: bytes) -> frozenset[str]:
        if content.startswith(b"die"):
            os._exit(9)
        return frozenset()

    def ask(
        self, seed: Seed, contents: Sequence[bytes], red: Sequence[bool]
    ) -> Iterable[Opinion | None]:
        return [Opinion(accepted=True)] * len(contents)

    def close(self) -> None:
        pass


def use(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    def seeds(_: Path | None) -> Iterator[Seed]:
        yield Seed(name="seed", content=content, fields=())

    monkeypatch.setattr(workers, "KINDS", (Kind("toy", 1, seeds, Careful),))


def test_all_jobs_report_what_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, b"harmless" * 20)
    plan = Plan(until=time.monotonic() + 60, targets=("toy",), jobs=2, most=100)
    tally = sum((news.tally for news in run(plan)), Counter())
    assert tally == {("toy", "green, accepted", ""): 200}


def test_a_worker_that_dies_is_an_exception_and_another_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, b"die" * 9)
    plan = Plan(until=time.monotonic() + 0.5, targets=("toy",), jobs=1)
    found = [find for news in run(plan) for find, _ in news.finds]
    assert found
    assert {find.said for find in found} == {"the worker ended with 9"}
    assert found[0].seed == "seed"
