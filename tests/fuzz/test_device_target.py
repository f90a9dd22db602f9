"""Device code as a target of the fuzzer: its seeds are healthy, and damage is found and no more."""

from __future__ import annotations

import pytest

from fixtures.fuzz import mutation
from fixtures.fuzz.seeds import Seed
from fixtures.fuzz.target_device import Target, find_seeds

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")

Seeds = dict[str, Seed]


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    """The seeds by name; they take a second, which not every process that collects should take."""
    return {seed.name: seed for seed in find_seeds(None)}


def damage(seed: Seed, name: str, value: int) -> bytes:
    field = next(each for each in seed.fields if each.name == name)
    content = bytearray(seed.content)
    place = slice(field.offset, field.offset + field.size)
    content[place] = (value % (1 << 8 * field.size)).to_bytes(field.size, "little")
    return bytes(content)


def test_healthy_seeds_have_no_problems_and_each_has_fields(seeds: Seeds) -> None:
    target = Target()
    for seed in seeds.values():
        assert not target.problems(seed, seed.content)
        assert len(seed.fields) >= 10
    assert len(seeds) > 60


@pytest.mark.parametrize(
    ("name", "field", "value", "said"),
    [
        ("one.fatbin", "entry unpacked size", 5, "it unpacks to more than the 5 bytes"),
        ("one.fatbin", "entry packed size", 5, "it unpacks to 0 bytes, but its head claims 3440"),
        ("one.fatbin", "entry data", 0, "its Zstandard frame is broken"),
        ("sm_90.0.fatbin", "e_shoff", 1 << 60, "the section headers end at byte"),
        ("sm_90.0.fatbin", "e_machine", 62, "for machine 62, not for a GPU"),
    ],
)
def test_damage_inside_an_entry_is_told(
    seeds: Seeds, name: str, field: str, value: int, said: str
) -> None:
    seed = seeds[name]
    assert any(said in line for line in Target().problems(seed, damage(seed, field, value)))


def test_mutants_are_read_to_the_end(seeds: Seeds) -> None:
    target = Target()
    seed = seeds["toolkit_13.5.1.cubin"]
    for number in range(200):
        target.problems(seed, mutation.make_mutant(seed, number, (seed,)).content)
