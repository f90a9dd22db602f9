from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fuzz.elf_fields import find_code
from fixtures.fuzz.elf_oracle import Answer, find_lack
from fixtures.fuzz.judging import WheelJudge
from fixtures.fuzz.target_elf import Target, damages_code_alone, interpret, make_seed
from fixtures.samples import read_sample

PLAIN = make_seed("plain.so", read_sample("plain.so"))
ARM = make_seed("aarch64.so", read_sample("aarch64.so"))


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    if lack := find_lack("glibc"):
        pytest.skip(lack)
    target = Target()
    yield target
    target.close()


def test_a_healthy_file_has_no_problem_that_it_does_not_have() -> None:
    assert not WheelJudge(PLAIN).judge(PLAIN.content).problems
    assert not WheelJudge(ARM).judge(ARM.content).problems


def test_a_file_that_cannot_be_read_has_one() -> None:
    (problem,) = WheelJudge(PLAIN).judge(PLAIN.content[:200]).problems
    assert problem.startswith("malformed-object: demo-1.0-")


def test_the_loader_is_asked_about_files_that_it_could_load(target: Target) -> None:
    (healthy, cut) = target.ask(PLAIN, [PLAIN.content, PLAIN.content[:200]], [False, True])
    assert healthy is not None
    assert healthy.accepted
    assert cut is not None
    assert not cut.accepted
    assert list(target.ask(ARM, [ARM.content], [False])) == [None]


def test_damaged_instructions_are_told_from_damaged_tables() -> None:
    code = find_code(PLAIN.content)[0].start
    damaged, table = bytearray(PLAIN.content), bytearray(PLAIN.content)
    damaged[code] ^= 1
    table[0x40] ^= 1
    assert damages_code_alone(PLAIN.content, bytes(damaged))
    assert not damages_code_alone(PLAIN.content, bytes(table))
    assert not damages_code_alone(PLAIN.content, bytes(damaged[:-1]))


@pytest.mark.parametrize(
    ("answer", "excused"),
    [
        (Answer(kind="died", text="11 open memfd:mutant:r-xp+0x10 x:---- own 0x8"), True),
        (Answer(kind="died", text="11 open ld.so:r-xp+0x10 nowhere:---- loader 0x8"), False),
        (Answer(kind="ended", text="7 open "), True),
        (Answer(kind="ended", text="127 open Inconsistency detected by ld.so"), False),
        (Answer(kind="refused", text="x.so: cannot map zero-fill pages"), True),
        (Answer(kind="refused", text="x.so: cannot allocate memory in static TLS block"), False),
        (Answer(kind="hung", text="open ld.so:r-xp+0x10 nowhere:---- loader (nil)"), False),
        (Answer(kind="refused", text="x.so: undefined symbol: own"), False),
    ],
)
def test_only_code_that_ran_and_memory_excuse_us(answer: Answer, excused: bool) -> None:
    assert bool(interpret(answer).excuse) is excused
