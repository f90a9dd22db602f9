"""A session of the fuzzer counts what it finds, makes it small, and says so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.fuzz.finds import minimise, read, rebuild, write
from fixtures.fuzz.guard import guard
from fixtures.fuzz.outcomes import End, Opinion, Outcome, weigh
from fixtures.fuzz.seeds import Edit, Field, Mutant, Seed
from fixtures.fuzz.session import Session
from fixtures.fuzz.targets import Target

FIELDS = (Field("first", 0, 4), Field("second", 8, 4))
SEED = Seed(name="seed", content=bytes(16), fields=FIELDS)


def find_seeds(_wheels: Path | None) -> Iterator[Seed]:
    yield SEED


def find_nothing(_seed: Seed, content: bytes, _folder: Path) -> frozenset[str]:
    """Be careless: break on one content, and see nothing in others."""
    if content[:4] == b"\xff\xff\xff\xff":
        raise ValueError("first is too large")
    return frozenset()


def die(_seed: Seed, _content: bytes, _folder: Path) -> frozenset[str]:
    os._exit(9)


def ask(content: bytes, _red: bool, _folder: Path) -> Opinion:
    return Opinion(accepted=not any(content[8:12]), said="second is not 0")


def run(
    out: Path, find_problems: Callable[[Seed, bytes, Path], frozenset[str]] = find_nothing
) -> Session:
    session = Session(out=out)
    session.run([Target("toy", 1, find_seeds, find_problems, ask)], seconds=0.5, first=0, jobs=2)
    return session


def test_a_silent_pass_and_an_exception_are_counted_and_made_small(tmp_path: Path) -> None:
    session = run(tmp_path)
    assert not session.is_clean
    assert session.ends["toy", End.SILENT] > 10
    assert session.ends["toy", End.EXCEPTION] > 0
    finds = {find.end: find for find in session.finds.values()}
    (edit,) = finds[End.SILENT].edits
    assert (edit.offset in range(8, 12), len(edit.content)) == (True, 1)
    assert finds[End.SILENT].fields.startswith("second 0x0 -> ")
    assert finds[End.EXCEPTION].said == "ValueError: first is too large (elsewhere)"
    kept = read(tmp_path / "finds" / "toy.jsonl")
    assert len(kept) == len(session.finds) == 2
    (silent,) = (each for each in kept if each["said"] == "second is not 0")
    content = bytearray(16)
    content[edit.offset] = edit.content[0]
    assert rebuild(silent, SEED.content) == content
    whole = replace(finds[End.SILENT], whole=b"an archive")
    assert rebuild(read(write(whole, SEED, tmp_path))[0], b"") == b"an archive"
    text = session.format_figures()
    assert f"## {session.ends['toy', End.SILENT]} toy silent passes: second 0x0 -> " in text
    assert "- said: second is not 0\n" in text


def test_a_process_that_dies_is_reported_with_what_it_tried(tmp_path: Path) -> None:
    session = run(tmp_path, die)
    assert not session.is_clean
    assert "A process died while it tried one of these: toy: seed, mutants from 0 on" in (
        session.format_figures()
    )


def test_the_table_has_a_row_for_each_target() -> None:
    session = Session()
    session.ends = Counter(
        {
            ("elf", End.SILENT): 2,
            ("elf", End.BOTH_RED): 1500,
            ("elf", End.EXPLAINED): 3,
            ("pe", End.RED_ALONE): 4,
        }
    )
    _, _, elf, pe = session.format_figures().splitlines()
    assert elf == "| elf | 1,505 | 0 | 0 | 0 | 2 | 3 | 1,505 | 1,500 | 0 | 0 |"
    assert pe == "| pe | 4 | 0 | 0 | 0 | 0 | 0 | 0 | 4 | 0 | 4 |"


def test_a_find_made_small_ends_as_the_mutant_did() -> None:
    edits = (Edit(0, b"\1\2\3\4\5\6\7"), Edit(9, b"\7\7"))
    mutant = Mutant(seed=SEED, number=1, damage="", edits=edits, size=14)

    def judge(content: bytes) -> Outcome:
        return Outcome(end=End.SILENT if content[10:11] == b"\7" else End.BOTH_GREEN)

    assert minimise(mutant, Outcome(end=End.SILENT), judge) == ((Edit(10, b"\7"),), 16)


@pytest.mark.parametrize(
    ("red", "opinion", "end"),
    [
        (False, Opinion(accepted=False), End.SILENT),
        (False, Opinion(accepted=False, excused=True), End.EXPLAINED),
        (True, Opinion(accepted=False, excused=True), End.BOTH_RED),
        (True, Opinion(accepted=True), End.RED),
        (False, Opinion(accepted=True), End.BOTH_GREEN),
        (False, None, End.GREEN_ALONE),
        (True, None, End.RED_ALONE),
    ],
)
def test_verdicts_are_put_side_by_side(red: bool, opinion: Opinion | None, end: End) -> None:
    assert weigh(red, opinion).end is end


def test_what_takes_too_long_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.fuzz.guard.SECONDS", 0.05)

    def spin() -> None:
        while True:
            try:
                sum(range(100))
            except Exception:  # a careless reader does not swallow it
                continue

    outcome = guard(spin)
    assert isinstance(outcome, Outcome)
    assert outcome.end is End.HANG


def test_too_much_memory_is_told_from_other_exceptions() -> None:
    def gather() -> None:
        raise MemoryError

    outcome = guard(gather)
    assert isinstance(outcome, Outcome)
    assert outcome.end is End.MEMORY
