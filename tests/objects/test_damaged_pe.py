"""A damaged PE image is malformed, or reads as what it still is; it never hangs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binary_checks.model import MalformedObject, ObjectFile, PeFile, UnreadObject
from binary_checks.objects import read_objects
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes

NAMES = (
    "delayed.dll", "ordinal.dll", "forwarder.dll", "i686.dll", "arm64x.dll", "dwarf.dll", "pdb.dll"
)  # fmt: skip
WHOLE = {name: read_pe_sample(name) for name in NAMES}


def _read(content: bytes) -> ObjectFile | MalformedObject | UnreadObject | None:
    found = read_objects("a.dll", Bytes(content))
    return found[0] if found else None


def _all_of(found: object) -> object:
    """Return all facts, also those read on demand, except size and overlay."""
    if not isinstance(found, PeFile):
        return found
    lazy = {"size", "overlay", "imports", "exports"}
    facts = {name: getattr(found, name) for name in PeFile.__dataclass_fields__ if name not in lazy}
    return facts | {"imports": list(found.imports), "exports": list(found.exports)}


def _signature(content: bytes | bytearray) -> int:
    return int.from_bytes(content[60:64], "little")


def _directory(content: bytes | bytearray, number: int) -> int:
    """Return the offset of a directory's entry in a PE32+ image."""
    return _signature(content) + 24 + 112 + 8 * number


def _offset(content: bytes | bytearray, address: int) -> int:
    """Return the file offset of an address."""
    table, count = _signature(content) + 24 + 240, content[_signature(content) + 6]
    for place in range(table, table + 40 * count, 40):
        size, start, _, offset = struct.unpack_from("<IIII", content, place + 8)
        if start <= address < start + size:
            return int(offset + address - start)
    raise AssertionError(f"{address:#x} lies in no section")


def _table(content: bytes | bytearray, number: int) -> int:
    """Return the file offset of a directory's contents."""
    (address,) = struct.unpack_from("<I", content, _directory(content, number))
    return _offset(content, address)


def _malformed(content: bytes | bytearray) -> str:
    found = _read(bytes(content))
    assert isinstance(found, MalformedObject), found
    return found.reason


def _unread(content: bytes | bytearray) -> str:
    found = _read(bytes(content))
    assert isinstance(found, UnreadObject), found
    return found.reason


@pytest.mark.parametrize("name", NAMES)
def test_an_image_cut_at_any_length_is_malformed_or_reads_the_same(name: str) -> None:
    whole = WHOLE[name]
    expected, signature = _all_of(_read(whole)), _signature(whole)
    # Section names of more than eight characters (.debug_info) are at the end, where no loader
    # looks.
    unnamed = {"debug_bytes": expected["debug_bytes"]}
    for length in range(2, len(whole)):
        found = _read(whole[:length])
        if length < signature + 4:
            assert isinstance(found, MalformedObject)  # a DOS program with the name of a DLL
        else:
            assert isinstance(found, MalformedObject) or _all_of(found) | unnamed == expected
    assert isinstance(_read(whole[: len(whole) * 9 // 10 - 0x200]), MalformedObject)


@pytest.mark.parametrize(
    "name",
    [
        *("forwarder.dll", "i686.dll"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("delayed.dll", "dwarf.dll")),
    ],
)
def test_any_single_byte_may_be_wrong(name: str) -> None:
    whole = WHOLE[name]
    for place in range(2, len(whole)):
        for value in {0, 0x7F, 0xFF} - {whole[place]}:
            changed = bytearray(whole)
            changed[place] = value
            found = _read(bytes(changed))
            assert found is None or isinstance(found, (PeFile, MalformedObject, UnreadObject))
            _all_of(found)


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    stomps=st.lists(
        st.tuples(
            st.integers(2, 2500),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(8), b"\0\0\0\x80", b"\0\x10\0\0"]),
            ),
        ),
        min_size=1,
        max_size=8,
    ),
)
@example(name="delayed.dll", stomps=[(60, b"\xff" * 4)])
def test_any_bytes_may_be_wrong(name: str, stomps: list[tuple[int, bytes]]) -> None:
    content = bytearray(WHOLE[name])
    for place, value in stomps:
        content[place : place + len(value)] = value
    source = Bytes(bytes(content))
    for found in read_objects("a.dll", source):
        assert isinstance(found, (PeFile, MalformedObject, UnreadObject))
        _all_of(found)
    assert sum(end - start for start, end in source.asked) <= 60 * len(content) + 1000


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise_behind_the_signature_is_malformed(noise: bytes) -> None:
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"
    assert isinstance(_read(head + noise), (MalformedObject, UnreadObject, PeFile))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 6, 9, 10, 12, 13, 14])
def test_a_directory_outside_of_every_section_is_malformed(number: int) -> None:
    content = bytearray(WHOLE["delayed.dll"])
    struct.pack_into("<II", content, _directory(content, number), 0x7FFF0000, 16)
    assert f"directory {number} at address 0x7fff0000 lies in no section" in _malformed(content)
    struct.pack_into("<II", content, _directory(content, number), 0x1800, 0x801)
    assert f"directory {number} has 0x801 bytes, but its section has only 0x800 more" in _malformed(
        content
    )


def test_a_signature_beyond_the_end_is_malformed() -> None:
    content = bytearray(WHOLE["delayed.dll"])
    struct.pack_into("<II", content, _directory(content, 4), len(content) - 8, 16)
    assert "the signature ends at byte" in _malformed(content)


def test_a_section_whose_name_begins_at_the_end_of_the_file_is_malformed() -> None:
    content = bytearray(WHOLE["dwarf.dll"])
    (strings,) = struct.unpack_from("<I", content, _signature(content) + 12)
    (count,) = struct.unpack_from("<I", content, _signature(content) + 16)
    name = content.index(b"/4\0")
    content[name : name + 8] = (b"/%d" % (len(content) - strings - 18 * count)).ljust(8, b"\0")
    assert "the name of a section ends at byte" in _malformed(content)


def test_absurd_counts_are_malformed_before_anything_is_read() -> None:
    content = bytearray(WHOLE["forwarder.dll"])
    struct.pack_into("<H", content, _signature(content) + 6, 0xFFFF)
    assert "the section headers end at byte" in _malformed(content)
    content = bytearray(WHOLE["forwarder.dll"])
    struct.pack_into("<I", content, _table(content, 0) + 20, 0x10001)
    assert "claims 65537 exports" in _malformed(content)
    struct.pack_into("<I", content, _table(content, 0) + 20, 0x10000)
    assert "a table of exports has 0x40000 bytes" in _malformed(content)
    content = bytearray(WHOLE["forwarder.dll"])
    struct.pack_into("<I", content, _table(content, 0) + 24, 0x30000)
    assert "a table of exports has 0xc0000 bytes" in _malformed(content)


def test_a_name_for_an_export_that_is_not_there_is_malformed() -> None:
    content = bytearray(WHOLE["forwarder.dll"])
    (indices,) = struct.unpack_from("<I", content, _table(content, 0) + 36)
    struct.pack_into("<H", content, _offset(content, indices), 500)
    assert "a name refers to export 500, but there are only" in _malformed(content)


def _with_large_section(content: bytes, filling: bytes) -> tuple[bytearray, int]:
    """Let the last section end with ``filling``; return also the address of the filling."""
    changed = bytearray(content)
    last = _signature(changed) + 24 + 240 + 40 * (changed[_signature(changed) + 6] - 1)
    address, _, start = struct.unpack_from("<III", changed, last + 12)
    start = start or len(changed)
    struct.pack_into("<I", changed, last + 8, len(changed) - start + len(filling))
    struct.pack_into("<II", changed, last + 16, len(changed) - start + len(filling), start)
    return changed + filling, address + len(changed) - start


def test_a_thousand_libraries_that_share_a_table_are_too_many() -> None:
    thunks = struct.pack("<Q", 1 << 63 | 5) * 2000 + bytes(8)
    content, address = _with_large_section(WHOLE["ordinal.dll"], thunks + bytes(1 << 17))
    (name,) = struct.unpack_from("<I", content, _table(content, 1) + 12)
    table = address + len(thunks)
    descriptor = struct.pack("<IIIII", address, 0, 0, name, address)
    start = _offset(content, table)
    content[start : start + 20 * 1000] = descriptor * 1000
    struct.pack_into("<I", content, _directory(content, 1), table)
    assert _unread(content) == "its symbols overlap: together they are longer than the file"


def test_a_table_of_imports_without_an_end_is_malformed() -> None:
    thunks = struct.pack("<Q", 1 << 63 | 5) * 0x400  # whole pages, so that no zeros follow
    content, address = _with_large_section(WHOLE["ordinal.dll"], thunks)
    assert address % 0x1000 == 0
    struct.pack_into("<I", content, _table(content, 1), address)
    assert "imports from 'KERNEL32.dll' at address 0x5000 lies in no section" in _malformed(content)


def test_names_that_overlap_do_not_explode() -> None:
    # 20,000 imports whose names are suffixes of one long name.
    name = b"\1\1" + b"n" * 60_000 + b"\0"
    content, address = _with_large_section(WHOLE["ordinal.dll"], name + bytes(20_001 * 8))
    start = _offset(content, address) + len(name)
    for number in range(20_000):
        struct.pack_into("<Q", content, start + 8 * number, address + number)
    struct.pack_into("<I", content, _table(content, 1), address + len(name))
    assert _unread(content) == "its symbols overlap: together they are longer than the file"
