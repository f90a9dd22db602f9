"""Export tries and bind opcodes are walked to their end, whatever they claim."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.objects import LimitedSource
from binary_checks.objects.byte_source import FilePart
from binary_checks.objects.macho.header import LC_DYLD_CHAINED_FIXUPS, Command, MachHeader
from binary_checks.objects.macho.symbols import (
    Bind,
    MachOExports,
    read_chained_imports,
    read_opcodes,
)
from tests.objects.byte_sources import Bytes


def walk_trie(trie: bytes) -> list[str]:
    exports = MachOExports("a.dylib", trie, dict.fromkeys(range(-200, 1 << 9), ""))
    exports.verify()
    return [symbol.name for symbol in exports]


def fixups(table: bytes, byte_order: str) -> list[Bind]:
    header = MachHeader(64, byte_order, 0, 0, 6, 1, 24, 0)
    contents = struct.pack(f"{byte_order}4I", LC_DYLD_CHAINED_FIXUPS, 16, 0, len(table))
    source = FilePart(LimitedSource(Bytes(table)), 0, len(table))
    return list(read_chained_imports(source, Command(LC_DYLD_CHAINED_FIXUPS, 0, contents, header)))


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_a_noisy_trie_ends(noise: bytes) -> None:
    with suppress(MalformedError):
        assert len(walk_trie(noise)) <= 200


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noisy_opcodes_end(noise: bytes, lazy: bool) -> None:
    with suppress(MalformedError):
        assert len(list(read_opcodes(noise, lazy=lazy))) <= 200


def _node(*children: tuple[bytes, int], terminal: bytes = b"") -> bytes:
    edges = b"".join(label + b"\0" + struct.pack("B", child) for label, child in children)
    return struct.pack("B", len(terminal)) + terminal + struct.pack("B", len(children)) + edges


def test_a_trie_that_goes_round_is_malformed() -> None:
    for trie in (_node((b"a", 0)), _node((b"a", 8), (b"b", 8)) + _node((b"", 0))):
        with pytest.raises(MalformedError, match="two edges"):
            walk_trie(trie)


def test_a_deep_trie_is_walked_without_recursion() -> None:
    depth = 2000
    chain = b"".join(
        b"\x02\0\0\x01a\0" + struct.pack("BB", 0x80 | (at & 0x7F), at >> 7)
        for at in range(8, 8 * depth + 1, 8)
    )
    found = walk_trie(chain + b"\x02\0\0\0")
    assert [len(name) for name in found] == list(range(depth + 1))


def test_names_that_explode_are_not_read() -> None:
    long = b"n" * 30_000
    leaf = b"\x02\0\0\x01a\0"
    start = len(long) + 6
    place = struct.pack("3B", 0x80 | start & 0x7F, 0x80 | start >> 7 & 0x7F, start >> 14)
    trie = b"\0\x01" + long + b"\0" + place
    for number in range(1, 3000):
        at = start + 9 * number
        trie += leaf + struct.pack("3B", 0x80 | at & 0x7F, 0x80 | at >> 7 & 0x7F, at >> 14)
    with pytest.raises(Unavailable, match="exports trie are too long together"):
        walk_trie(trie)
    branches = b"".join(bytes([number]) + b"\0\x7f" for number in range(1, 255))
    with pytest.raises(Unavailable, match="exports trie are too long together"):
        walk_trie(b"\0\x01" + long + b"\0" + place + b"\0\xfe" + branches)


def test_names_of_fixups_that_explode_are_not_read() -> None:
    table = _chain(1, "<", [1] * 2000)[: -len(_NAMES)] + b"\0" + b"n" * 60_000 + b"\0"
    with pytest.raises(Unavailable, match="longer than the file"):
        fixups(table, "<")


def test_a_number_without_end_is_malformed() -> None:
    with pytest.raises(MalformedError, match="more than 64 bits"):
        walk_trie(b"\x80" * 100)
    with pytest.raises(MalformedError, match="beyond its end"):
        walk_trie(b"\x05")


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
    assert list(found) == [(b"_a", 129, True), (b"_a", -2, True), (b"_b", 1, False)]


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
        assert fixups(table, byte_order) == [(names[each], 3, each == 4) for each in starts]
    for starts in ([1, 4, 8, 9], [9, 1], [9], [99]):
        with pytest.raises(MalformedError, match="a name of the chained fixups runs beyond"):
            fixups(_chain(form, byte_order, starts)[:-1], byte_order)


def test_a_reexport_from_wherever_it_is_has_a_negative_ordinal() -> None:
    everywhere = b"\xfe" + b"\xff" * 8 + b"\x01"
    assert walk_trie(b"\x0c\x08" + everywhere + b"\0\0") == [""]
