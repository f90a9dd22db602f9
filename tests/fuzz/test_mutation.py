from __future__ import annotations

import struct

from fixtures.fuzz.mutation import count_singles, make_mutant, odd_values
from fixtures.fuzz.seeds import Edit, Field, Seed, apply, compare
from fixtures.fuzz.target_objects import find_numbers
from fixtures.samples import read_macho_sample, read_pe_sample, read_sample

PLAIN = read_sample("plain.so")
SEED = Seed(name="plain.so", content=PLAIN, fields=tuple(find_numbers(PLAIN)))
(SHOFF,) = struct.unpack_from("<Q", PLAIN, 40)
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
    assert "2 bytes at 0x12: 0x3e -> 0x0" in damages  # e_machine
    assert f"8 bytes at 0x28: {SHOFF:#x} -> 0xffffffffffffffff" in damages


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


def test_the_numbers_of_every_format_are_found() -> None:
    where = {(field.offset, field.size, field.order) for field in SEED.fields}
    assert {
        (16, 2, "little"),
        (40, 8, "little"),
        (60, 2, "little"),
    } <= where  # e_type, e_shoff, ...
    universal = find_numbers(read_macho_sample("universal2.dylib"))
    assert {(4, 4), (16, 4)} <= {
        (each.offset, each.size) for each in universal if each.order == "big"
    }
    image = read_pe_sample("plain.dll")
    (header,) = struct.unpack_from("<I", image, 60)
    assert {(60, 4), (header + 6, 2)} <= {(each.offset, each.size) for each in find_numbers(image)}
    assert list(find_numbers(b"")) == []
