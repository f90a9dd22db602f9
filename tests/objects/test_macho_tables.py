"""The exports trie and the bind opcodes are walked to their end, whatever they claim."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.errors import MalformedError
from binary_checks.objects.macho_binds import read_opcodes
from binary_checks.objects.macho_trie import walk_trie


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_a_noisy_trie_ends(noise: bytes) -> None:
    _exhaust(walk_trie(noise))


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noisy_opcodes_end(noise: bytes, lazy: bool) -> None:
    _exhaust(read_opcodes(noise, lazy=lazy))


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


def test_names_that_explode_are_malformed() -> None:
    long = b"n" * 30_000
    leaf = b"\x02\0\0\x01a\0"
    start = len(long) + 6
    place = struct.pack("3B", 0x80 | start & 0x7F, 0x80 | start >> 7 & 0x7F, start >> 14)
    trie = b"\0\x01" + long + b"\0" + place
    for number in range(1, 3000):
        at = start + 9 * number
        trie += leaf + struct.pack("3B", 0x80 | at & 0x7F, 0x80 | at >> 7 & 0x7F, at >> 14)
    with pytest.raises(MalformedError, match="explode"):
        list(walk_trie(trie))


def test_a_number_without_end_is_malformed() -> None:
    with pytest.raises(MalformedError, match="more than 64 bits"):
        list(walk_trie(b"\x80" * 100))
    with pytest.raises(MalformedError, match="beyond its end"):
        list(walk_trie(b"\x05"))


@pytest.mark.parametrize("opcodes", [b"\x40name", b"\xa0", b"\xd5", b"\xe0"])
def test_opcodes_that_are_none_are_malformed(opcodes: bytes) -> None:
    with pytest.raises(MalformedError):
        list(read_opcodes(opcodes, lazy=False))


def test_opcodes_of_every_kind_are_read() -> None:
    opcodes = (
        b"\x20\x81\x01\x41_a\0\x51\x72\x08\x60\x01\x90\x3e\xb1\x11\x40_b\0\xc0\x02\x08\xa0\x08"
    )
    found = list(read_opcodes(opcodes + b"\xd0\x03\xd1\0\xff", lazy=False))
    assert found == [
        (b"_a", 129, True), (b"_a", -2, True), (b"_b", 1, False),
    ]  # fmt: skip


def test_a_reexport_from_wherever_it_is_has_a_negative_ordinal() -> None:
    everywhere = b"\xfe" + b"\xff" * 8 + b"\x01"
    assert [ordinal for _, _, ordinal in walk_trie(b"\x0c\x08" + everywhere + b"\0\0")] == [-2]
