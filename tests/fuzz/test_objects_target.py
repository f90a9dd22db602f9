"""Objects as a target of the fuzzer: seeds are healthy, and damage is found and breaks nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.fuzz import mutation
from fixtures.fuzz.seeds import Edit, Seed, apply
from fixtures.fuzz.target_objects import find_problems, find_seeds

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")


@pytest.fixture(scope="module")
def seeds() -> dict[str, Seed]:
    """The seeds by name; they take a second, which not every process that collects should take."""
    return {seed.name: seed for seed in find_seeds(None)}


def test_every_seed_has_its_own_name_and_numbers(seeds: dict[str, Seed]) -> None:
    assert len(seeds) > 150
    assert len(list(find_seeds(None))) == len(seeds)
    assert all(len(seed.fields) >= 10 for seed in seeds.values())


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("one.fatbin", Edit(16 + 56, b"\5\0"), "it unpacks to more than the 5 bytes"),
        ("one.fatbin", Edit(16 + 16, b"\5\0"), "it unpacks to 0 bytes, but its head claims 3440"),
        ("one.fatbin", Edit(16 + 64, b"\0\0\0\0"), "its Zstandard frame is broken"),
        ("sm_90.cubin", Edit(40, bytes(7) + b"\x10"), "the section headers end at byte"),
    ],
)
def test_damage_inside_device_code_is_told(
    seeds: dict[str, Seed], name: str, edit: Edit, said: str, tmp_path: Path
) -> None:
    seed = seeds[name]
    content = apply(seed.content, (edit,), len(seed.content))
    assert not find_problems(seed, seed.content, tmp_path)
    assert any(said in line for line in find_problems(seed, content, tmp_path))


@pytest.mark.parametrize(
    "name", ["toolkit_13.5.1.cubin", "elf plain.so", "macho weak.so", "pe arm64x.dll"]
)
def test_mutants_are_read_to_the_end(seeds: dict[str, Seed], name: str, tmp_path: Path) -> None:
    seed = seeds[name]
    mutants = [mutation.make_mutant(seed, number, (seed,)).content for number in range(20)]
    assert 0 < sum(bool(find_problems(seed, each, tmp_path)) for each in mutants) < 20
