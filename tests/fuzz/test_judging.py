from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import PackageError
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.fuzz.judging import WheelJudge, judge_source
from fixtures.fuzz.mutation import make_mutant
from fixtures.fuzz.seeds import Seed
from fixtures.fuzz.target_objects import make_seed
from fixtures.samples import read_macho_sample, read_pe_sample, read_sample

SEEDS = [
    make_seed(name, name, content, f"cp311-cp311-{platform}")
    for name, content, platform in (
        ("runpath_origin.so", read_sample("runpath_origin.so"), "manylinux_2_36_x86_64"),
        ("musl.so", read_sample("musl.so"), "musllinux_1_2_x86_64"),
        ("weak.so", read_macho_sample("weak.so"), "macosx_11_0_x86_64"),
        ("plain.dll", read_pe_sample("plain.dll"), "win_amd64"),
    )
]


def judge_whole(seed: Seed, content: bytes, folder: Path) -> frozenset[str]:
    """What a run says of a wheel that is built around the mutant, read from its file."""
    members = {"demo/__init__.py": b"", **seed.beside, seed.path: content}
    wheel = build_wheel(folder, tags=(seed.tag,), members=members)
    try:
        return judge_source(FileSource(path=wheel)).problems
    except PackageError as error:
        return frozenset({str(error)})


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_mutant_is_red_or_green_as_in_a_run(seed: Seed, tmp_path: Path) -> None:
    judge = WheelJudge(seed)
    healthy = judge_whole(seed, seed.content, tmp_path)
    assert healthy == judge.healthy.problems
    contents = [make_mutant(seed, number, SEEDS).content for number in range(60)]
    quickly = [bool(judge.judge(content).problems) for content in contents]
    wholly = [bool(judge_whole(seed, content, tmp_path) - healthy) for content in contents]
    assert quickly == wholly
    assert 10 < sum(quickly) < 60
