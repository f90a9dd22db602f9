from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from fixtures.fuzz.finds import Find, minimise, read, rebuild, write
from fixtures.fuzz.guard import guard
from fixtures.fuzz.outcomes import End, Opinion, Outcome, weigh
from fixtures.fuzz.report import is_clean, write_excuses, write_finds, write_table
from fixtures.fuzz.seeds import Edit, Field, Mutant, Seed
from fixtures.fuzz.targets import Kind
from fixtures.fuzz.trials import Tally, Trials

SEED = Seed(name="seed", content=bytes(16), fields=(Field("first", 0, 4), Field("second", 8, 4)))


class Careless:
    """Never finds anything, and its oracle refuses what is not 0 in the second field."""

    def __init__(self) -> None:
        self.asked = Counter({"the second field": 7})

    def problems(self, seed: Seed, content: bytes) -> frozenset[str]:
        if content[:4] == b"\xff\xff\xff\xff":
            raise ValueError("first is too large")
        return frozenset()

    def ask(
        self, seed: Seed, contents: Sequence[bytes], red: Sequence[bool]
    ) -> Iterable[Opinion | None]:
        return [
            Opinion(accepted=not any(content[8:12]), said="second is not 0") for content in contents
        ]

    def close(self) -> None:
        pass


def run_trials(batches: int) -> Trials:
    kind = Kind("toy", 1, lambda _: iter([SEED]), Careless)
    trials = Trials(kind, [SEED], Careless())
    for _ in range(batches):
        trials.run_batch(0, 1, lambda _seed, _number: None)
    return trials


def test_an_injected_silent_pass_is_counted_and_made_small() -> None:
    tally, finds = run_trials(4).take_news()
    assert tally["toy", "silent passes", ""] > 10
    assert not is_clean(tally)
    silent = [find for find, _ in finds if find.end is End.SILENT]
    assert all(sum(len(edit.content) for edit in find.edits) == 1 for find in silent)
    assert all(8 <= find.edits[0].offset < 12 for find in silent)
    assert silent[0].fields.startswith("second 0x0 -> ")


def test_it_is_known_how_often_who_was_asked() -> None:
    trials = run_trials(1)
    assert trials.take_news()[0]["toy", "asked", "the second field"] == 7
    assert trials.take_news()[0]["toy", "asked", "the second field"] == 0


def test_an_exception_of_ours_is_counted_and_located() -> None:
    tally, finds = run_trials(4).take_news()
    assert tally["toy", "exceptions", ""] > 0
    (said, *_) = (find.said for find, _ in finds if find.end is End.EXCEPTION)
    assert said == "ValueError: first is too large (elsewhere)"


def test_a_find_made_small_ends_as_the_mutant_did() -> None:
    mutant = Mutant(
        seed=SEED,
        number=1,
        damage="",
        edits=(Edit(0, b"\1\2\3\4\5\6\7"), Edit(9, b"\7\7")),
        size=14,
    )

    def judge(content: bytes) -> Outcome:
        return Outcome(end=End.SILENT if content[10:11] == b"\7" else End.BOTH_GREEN)

    content, edits, size = minimise(mutant, Outcome(end=End.SILENT), judge)
    assert (edits, size) == ((Edit(10, b"\7"),), 16)
    assert content == bytes(10) + b"\7" + bytes(5)


@pytest.mark.parametrize(
    ("red", "opinion", "end"),
    [
        (False, Opinion(accepted=False), End.SILENT),
        (False, Opinion(accepted=False, excuse="code ran"), End.EXPLAINED),
        (True, Opinion(accepted=False, excuse="code ran"), End.BOTH_RED),
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


def test_a_kept_find_makes_its_mutant_again(tmp_path: Path) -> None:
    find = Find(
        target="toy",
        seed="seed",
        edits=(Edit(8, b"\7"),),
        size=12,
        end=End.SILENT,
        fields="second 0x0 -> 0x7",
        said="second is not 0",
        number=3,
    )
    (document,) = read(write(find, SEED, tmp_path))
    assert rebuild(document, SEED.content) == bytes(8) + b"\7" + bytes(3)
    assert document["fields"] == "second 0x0 -> 0x7"


def test_mutants_on_which_something_new_is_said_become_seeds() -> None:
    trials = run_trials(4)
    assert len(trials.seeds) > 1
    assert all(seed.origin is SEED for seed in trials.seeds[1:])


def test_the_table_has_a_row_a_target_and_one_for_all() -> None:
    tally = Tally(
        {
            ("elf", "silent passes", ""): 2,
            ("elf", "red, refused", ""): 1500,
            ("elf", "explained", "its own code ran"): 3,
            ("pe", "red, not asked", ""): 4,
            ("pe", "asked", "wine"): 9,
        }
    )
    _, _, elf, pe, every = write_table(tally).splitlines()
    assert elf == "| elf | 1,505 | 0 | 0 | 0 | 2 | 3 | 1,505 | 1,500 | 0 | 0 |"
    assert pe == "| pe | 4 | 0 | 0 | 0 | 0 | 0 | 0 | 4 | 0 | 4 |"
    assert every.startswith("| all | 1,509 |")
    assert write_excuses(tally).splitlines() == [
        "- pe: 9 questions to wine",
        "- elf: 3 explained: its own code ran",
    ]


def test_finds_are_listed_by_what_was_damaged() -> None:
    _, finds = run_trials(4).take_news()
    text = write_finds(find for find, _ in finds)
    assert "silent passes: second N -> N" in text
    assert "said: second is not 0" in text
