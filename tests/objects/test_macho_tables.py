"""Export tries and bind opcodes are walked to their end, whatever they claim."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.objects.macho.bindings import read_chained_imports, read_opcodes
from binary_checks.objects.macho.export_trie import walk_trie


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_a_noisy_trie_ends(noise: bytes) -> None:
    _exhaust(walk_trie(noise))


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noisy_opcodes_end(noise: bytes, lazy: bool) -> None:
    with suppress(MalformedError):
        assert sum(map(len, read_opcodes(noise, lazy=lazy).values())) <= 200


def _exhaust(items: Iterable[object]) -> None:
    with suppress(MalformedError):
        assert len(list(items)) <= 200


def _node(*children: tuple[bytes, int], terminal: bytes = b"") -> bytes:
    edges = b"".join(label + b"\0" + struct.pack("B", child) for label, child in children)
    return struct.pack("B", len(terminal)) + terminal + struct.pack("B", len(children)) + edges


def test_a_trie_that_goes_round_is_malformed() -> None:
    for trie in (_node((b"a", 0)), _node((b"a", 8), (b"b", 8)) + _node((b"", 0))):
        with pytest.raises(MalformedError, match="two edges"):
            list(walk_trie(trie))


def test_a_deep_trie_is_walked_without_recursion() -> None:
    depth = 2000
    chain = b"".join(
        b"\x02\0\0\x01a\0" + struct.pack("BB", 0x80 | (at & 0x7F), at >> 7)
        for at in range(8, 8 * depth + 1, 8)
    )
    found = list(walk_trie(chain + b"\x02\0\0\0"))
    assert [len(name) for name, _, _ in found] == list(range(depth + 1))


def test_names_that_explode_are_not_read() -> None:
    long = b"n" * 30_000
    leaf = b"\x02\0\0\x01a\0"
    start = len(long) + 6
    place = struct.pack("3B", 0x80 | start & 0x7F, 0x80 | start >> 7 & 0x7F, start >> 14)
    trie = b"\0\x01" + long + b"\0" + place
    for number in range(1, 3000):
        at = start + 9 * number
        trie += leaf + struct.pack("3B", 0x80 | at & 0x7F, 0x80 | at >> 7 & 0x7F, at >> 14)
    with pytest.raises(Unavailable, match=r"exports trie have more than \d+ bytes together"):
        list(walk_trie(trie))
    branches = b"".join(bytes([number]) + b"\0\x7f" for number in range(1, 255))
    with pytest.raises(Unavailable, match=r"exports trie have more than \d+ bytes together"):
        list(walk_trie(b"\0\x01" + long + b"\0" + place + b"\0\xfe" + branches))
    long = b"n" * 70_000
    with pytest.raises(Unavailable, match="a name of the exports trie has more than 65536 bytes"):
        list(walk_trie(b"\0\x01" + long + b"\0" + b"\xf6\xa2\x04" + b"\x02\0\0\0"))


def test_names_of_fixups_that_explode_are_not_read() -> None:
    table = _chain(1, "<", [1] * 99)[: -len(_NAMES)] + b"\0" + b"n" * 999 + b"\0"
    with pytest.raises(Unavailable, match=r"chained fixups have more than \d+ bytes together"):
        read_chained_imports(table, "<")


def test_a_number_without_end_is_malformed() -> None:
    with pytest.raises(MalformedError, match="more than 64 bits"):
        list(walk_trie(b"\x80" * 100))
    with pytest.raises(MalformedError, match="beyond its end"):
        list(walk_trie(b"\x05"))


_ODD = b"\x40" + b"\xff" * 10 + b"\0"  # a valid name


@pytest.mark.parametrize(
    "opcodes",
    [
        b"\x40name", b"\xa0", b"\xd5", b"\xe0",
        b"\x40\xff\0\x90\xc0", b"\x40\xff\0\xc0", _ODD + b"\xc0", _ODD + b"\x90\xa0",
    ],
)  # fmt: skip
def test_opcodes_that_are_none_are_malformed(opcodes: bytes) -> None:
    with pytest.raises(MalformedError):
        list(read_opcodes(opcodes, lazy=False))


def test_opcodes_of_every_kind_are_read() -> None:
    opcodes = (
        b"\x20\x81\x01\x41_a\0\x51\x72\x08\x60\x01\x90\x3e\xb1\x11\x40_b\0\xc0\x02\x08\xa0\x08"
    )
    found = read_opcodes(opcodes + b"\xd0\x03\xd1\0\xff", lazy=False)
    assert found == {(129, True): [b"_a"], (-2, True): [b"_a"], (1, False): [b"_b"]}


_USUAL = st.sampled_from((
    b"\x11\x40_a\0\x51\x72\x08\x90", b"\x41_b\0\x90\xb1\x90", b"\x80\x08\x90", b"\0",
    b"\x20\x93\x01\x40_c\0\x72\x80\x01\x90", b"\x30\x40\0\xa0\x08", b"\x40_e\0",
    b"\x3e\x40_d\0\xc0\x02\x08" + 250 * b"\x90\x72\x10",
))  # fmt: skip
_UNUSUAL = b"\x12\x51\x40_last\0\x90"  # makes the table be read opcode by opcode


@given(st.lists(_USUAL), st.booleans())
def test_opcodes_are_read_alike_at_once_and_step_by_step(runs: list[bytes], lazy: bool) -> None:
    table = b"\x51" + b"".join(runs)
    found = {key: names for key, names in read_opcodes(table, lazy=lazy).items() if names}
    slowly = dict(read_opcodes(table + _UNUSUAL, lazy=lazy))
    if lazy or b"\0" not in runs:
        assert slowly[2, False].pop() == b"_last"
    assert {key: names for key, names in slowly.items() if names} == found


_NAMES = b"\0_a\0_bc\0\0_d\0"


def _chain(form: int, byte_order: str, starts: list[int]) -> bytes:
    layout, weak, before = {1: ("I", 8, 9), 2: ("Ii", 8, 9), 3: ("QQ", 16, 32)}[form]
    entries = [(start << before | (start == 4) << weak | 3, 0)[: len(layout)] for start in starts]
    imports = b"".join(struct.pack(byte_order + layout, *entry) for entry in entries)
    head = (0, 28, 32, 32 + len(imports), len(starts), form, 0, 0)
    return struct.pack(byte_order + "8I", *head) + imports + _NAMES


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("byte_order", "<>")
def test_chained_imports_are_read_in_any_order(form: int, byte_order: str) -> None:
    names = {1: b"_a", 4: b"_bc", 6: b"c", 8: b"", 9: b"_d"}
    for starts in ([1, 4, 8, 9], [4, 8], [9, 1], [6, 4], [8, 8], [1, 8], [1], []):
        table = _chain(form, byte_order, starts)
        strong = [names[start] for start in starts if start != 4]
        weak = [b"_bc"] if 4 in starts else []
        found = read_chained_imports(table, byte_order)
        assert found == {
            key: group for key, group in {(3, False): strong, (3, True): weak}.items() if group
        }
    for starts in ([1, 4, 8, 9], [9, 1], [9], [99]):
        with pytest.raises(MalformedError, match="a name of the chained fixups runs beyond"):
            read_chained_imports(_chain(form, byte_order, starts)[:-1], byte_order)


def test_a_reexport_from_wherever_it_is_has_a_negative_ordinal() -> None:
    everywhere = b"\xfe" + b"\xff" * 8 + b"\x01"
    assert [ordinal for _, _, ordinal in walk_trie(b"\x0c\x08" + everywhere + b"\0\0")] == [-2]
