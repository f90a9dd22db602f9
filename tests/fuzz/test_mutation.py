from __future__ import annotations

import pytest

from fixtures.fuzz.elf_fields import find_fields
from fixtures.fuzz.mutation import count_singles, make_mutant, odd_values
from fixtures.fuzz.seeds import Edit, Field, Seed, apply, compare
from fixtures.samples import read_sample

PLAIN = read_sample("plain.so")
SEED = Seed(name="plain.so", content=PLAIN, fields=tuple(find_fields(PLAIN)))
OTHER = Seed(name="other", content=bytes(range(256)), fields=())


def test_the_same_number_makes_the_same_mutant() -> None:
    numbers = range(400)
    first = [make_mutant(SEED, number, (SEED, OTHER)) for number in numbers]
    again = [make_mutant(SEED, number, (SEED, OTHER)) for number in numbers]
    assert [mutant.content for mutant in first] == [mutant.content for mutant in again]
    assert len({mutant.content for mutant in first}) > 350


def test_even_numbers_go_through_every_field_and_value() -> None:
    most = count_singles(SEED)
    damages = {make_mutant(SEED, 2 * number).damage for number in range(most)}
    assert len(damages) == most > 10_000
    assert "e_machine: 0x3e -> 0x0" in damages
    assert "segment 0 p_vaddr: 0x40 -> 0xffffffffffffffff" in damages


def test_a_number_gets_the_values_that_readers_stumble_over() -> None:
    values = odd_values(b"\x10\0", Field("size", 0, 2), 1000)
    assert {0, 1, 0xFFFF, 0x7FFF, 0x8000, 15, 17, 32, 8, 0x1000, 1000} <= set(values)
    assert 16 not in values


def test_a_seed_without_fields_is_damaged_all_the_same() -> None:
    mutants = [make_mutant(OTHER, number, (SEED,)) for number in range(50)]
    assert sum(mutant.content != OTHER.content for mutant in mutants) > 40


def test_no_mutant_is_longer_than_its_seed() -> None:
    assert all(
        0 < len(make_mutant(SEED, number, (SEED, OTHER)).content) <= len(PLAIN)
        for number in range(1, 800, 2)
    )


def test_edits_overwrite_and_the_size_cuts() -> None:
    assert apply(b"abcdef", (Edit(1, b"XY"), Edit(5, b"ZZ")), 6) == b"aXYdeZ"
    assert apply(b"abcdef", (), 2) == b"ab"
    assert compare(b"abcdef", b"aXYde!") == (Edit(1, b"XY"), Edit(5, b"!"))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", PLAIN[:64], PLAIN[:300]])
def test_of_what_is_no_whole_file_there_are_the_fields_that_there_are(content: bytes) -> None:
    if len(content) < 64:
        assert list(find_fields(content)) == []


def test_fields_have_the_names_of_the_specification() -> None:
    names = {field.name for field in SEED.fields}
    assert {"e_type", "segment 0 p_type", "dynamic 0x6 value", "relocation 0 r_offset"} <= names
