"""A damaged ELF file is malformed, or reads as what it still is; it never hangs."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binary_checks.model import ElfFile, MalformedObject, ObjectFile, UnreadObject
from binary_checks.objects import read_objects
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.samples import read_sample
from tests.objects.byte_sources import Bytes

COMMON: dict[str, Any] = {
    "soname": "libdemo.so.1",
    "needed": ("libc.so.6",),
    "imports": (ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"),),
    "exports": (ElfSymbol("one", "DEMO_1"), ElfSymbol("two")),
    "build_id": "0123456789",
}
BUILT = {
    "with section headers": build_elf(**COMMON),
    "without section headers": build_elf(**COMMON, section_headers=False),
    "32 bits, DT_HASH": build_elf(**COMMON, machine="armv7l", gnu_hash=False, sysv_hash=True),
    "big endian": build_elf(**COMMON, machine="s390x", sysv_hash=True),
    "executable": build_elf(kind="executable", section_headers=False),
    "from lld": read_sample("needs_dep.so"),
}
_DT_VERNEED = 0x6FFFFFFE
_DT_GNU_HASH = 0x6FFFFEF5


def _read(content: bytes) -> ObjectFile | MalformedObject | UnreadObject:
    (found,) = read_objects("a.so", Bytes(content))
    return found


def _all_of(found: object) -> object:
    """Return all facts, also those read on demand, except the size."""
    if not isinstance(found, ElfFile):
        return found
    facts = {name: getattr(found, name) for name in ElfFile.__dataclass_fields__ if name != "size"}
    return facts | {"imports": sorted(found.imports, key=repr), "exports": list(found.exports)}


@pytest.mark.parametrize("name", BUILT)
def test_a_file_cut_at_any_length_is_malformed_or_reads_the_same(name: str) -> None:
    whole = BUILT[name]
    expected = _all_of(_read(whole))
    cut = [_read(whole[:length]) for length in range(4, len(whole))]
    assert sum(isinstance(found, MalformedObject) for found in cut) > len(whole) // 2
    for found in cut:
        assert isinstance(found, MalformedObject) or _all_of(found) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("without section headers", "32 bits, DT_HASH"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("with section headers", "big endian", "executable", "from lld")
        ),
    ],
)
def test_any_single_byte_may_be_wrong(name: str) -> None:
    content = BUILT[name]
    for place in range(4, len(content)):
        for value in {0, 0x7F, 0xFF} - {content[place]}:
            changed = bytearray(content)
            changed[place] = value
            _all_of(_read(bytes(changed)))


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(BUILT)),
    stomps=st.lists(
        st.tuples(
            st.integers(4, 4000),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(8), b"\0\0\0\x80"]),
            ),
        ),
        min_size=1,
        max_size=8,
    ),
)
@example(name="from lld", stomps=[(40, b"\xff" * 8)])
def test_any_bytes_may_be_wrong(name: str, stomps: list[tuple[int, bytes]]) -> None:
    content = bytearray(BUILT[name])
    for place, value in stomps:
        content[place : place + len(value)] = value
    source = Bytes(bytes(content))
    for found in read_objects("a.so", source):
        assert isinstance(found, (ElfFile, MalformedObject, UnreadObject))
        _all_of(found)
    assert sum(end - start for start, end in source.asked) <= 40 * len(content) + 1000


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise_behind_the_magic_is_malformed(noise: bytes) -> None:
    assert isinstance(_read(b"\x7fELF" + noise), (MalformedObject, UnreadObject, ElfFile))


def _malformed(content: bytes) -> str:
    found = _read(content)
    assert isinstance(found, MalformedObject), found
    return found.reason


def _with_dynamic(content: bytes, tag: int, value: int) -> bytes:
    """Change the value of the dynamic entry with this tag (little-endian, 64 bits)."""
    place = _entry(content, tag)
    return content[: place + 8] + struct.pack("<Q", value) + content[place + 16 :]


def _segment(content: bytes | bytearray, kind: int) -> int:
    """Return the offset of the program header of this type."""
    return next(at for at in range(64, 64 + 56 * content[56], 56) if content[at] == kind)


def _entry(content: bytes | bytearray, tag: int) -> int:
    """Return the offset of the dynamic entry with this tag."""
    start, _, _, size = struct.unpack_from("<QQQQ", content, _segment(content, 2) + 8)
    rows = range(start, start + size, 16)
    return next(at for at in rows if struct.unpack_from("<Q", content, at) == (tag,))


def _address(content: bytes | bytearray, tag: int) -> int:
    place = _entry(content, tag)
    return int.from_bytes(content[place + 8 : place + 16], "little")


def test_a_table_outside_of_every_segment_is_malformed() -> None:
    content = BUILT["without section headers"]
    for tag in (_DT_VERNEED, _DT_GNU_HASH, 0x6FFFFFF0, 0x6FFFFFFC):
        assert "lies in no loaded segment" in _malformed(_with_dynamic(content, tag, 1 << 40))


def test_a_string_table_may_end_before_the_nul_of_its_last_string() -> None:
    content = BUILT["without section headers"]
    place = _entry(content, 10) + 8
    size = int.from_bytes(content[place : place + 8], "little")
    for missing in (1, 4):
        assert _all_of(_read(_with_dynamic(content, 10, size - missing))) == _all_of(_read(content))
    assert "beyond the end of DT_STRTAB" in _malformed(_with_dynamic(content, 14, size))


def test_a_string_table_without_a_nul_behind_it_is_malformed() -> None:
    content = BUILT["without section headers"]
    moved = _with_dynamic(_with_dynamic(content, 5, len(content)), 10, 4)  # a page is mapped
    assert "beyond the end of DT_STRTAB" in _malformed(moved + b"x" * 8)


def test_a_chain_that_stands_still_is_malformed() -> None:
    content = BUILT["without section headers"]
    fault = "a chain of version records does not end at its count"
    assert fault in _malformed(_with_dynamic(content, 0x6FFFFFFF, 30000))
    assert fault in _malformed(_with_dynamic(content, 0x6FFFFFFF, 1 << 40))


def test_absurd_sizes_are_malformed_before_anything_is_read() -> None:
    content = BUILT["without section headers"]
    assert "DT_STRTAB has" in _malformed(_with_dynamic(content, 10, 1 << 40))
    huge = bytearray(BUILT["with section headers"])
    struct.pack_into("<H", huge, 60, 0)  # e_shnum 0: the number is in section header 0
    struct.pack_into("<Q", huge, int.from_bytes(huge[40:48], "little") + 32, 1 << 40)
    assert "the section headers end at byte" in _malformed(bytes(huge))
    buckets = bytearray(content)
    struct.pack_into("<I", buckets, _address(content, _DT_GNU_HASH), 0xFFFFFFFF)
    assert "DT_GNU_HASH has 0x3fffffffc bytes" in _malformed(bytes(buckets))


def test_names_that_overlap_do_not_explode() -> None:
    # 2,000 symbols whose names are suffixes of one long name.
    exports = tuple(ElfSymbol(f"s{number:04}") for number in range(2000))
    content = bytearray(build_elf(needed=("n" * 60_000,), exports=exports, section_headers=False))
    found = _read(bytes(content))
    assert isinstance(found, ElfFile)
    table, long = _address(content, 6), content.index(b"n" * 60_000)
    strings = _address(content, 5)  # in the first segment, addresses are offsets
    for number in range(2000):
        struct.pack_into("<I", content, table + 24 * (number + 1), long - strings + number)
    found = _read(bytes(content))
    assert isinstance(found, UnreadObject)
    assert found.reason == "its symbols overlap: together they are longer than the file"


def test_a_library_without_a_dynamic_segment_is_malformed() -> None:
    content = bytearray(BUILT["without section headers"])
    struct.pack_into("<I", content, _segment(content, 2), 0x6FFFFFFF)
    assert "without a dynamic segment" in _malformed(bytes(content))
