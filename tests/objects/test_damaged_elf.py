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
from tests.objects.elf_fields import get, identification, put, segment, value

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
        for byte in {0, 0x7F, 0xFF} - {content[place]}:
            changed = bytearray(content)
            changed[place] = byte
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
    for place, stomp in stomps:
        content[place : place + len(stomp)] = stomp
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


def test_a_table_outside_of_every_segment_is_malformed() -> None:
    content = BUILT["without section headers"]
    for tag in (_DT_VERNEED, _DT_GNU_HASH, 0x6FFFFFF0, 0x6FFFFFFC):
        assert "lies in no loaded segment" in _malformed(put(content, value(tag), 1 << 40))


def test_a_string_table_may_end_before_the_nul_of_its_last_string() -> None:
    content = BUILT["without section headers"]
    size = get(content, value(10))
    for missing in (1, 4):
        assert _all_of(_read(put(content, value(10), size - missing))) == _all_of(_read(content))
    assert "beyond the end of DT_STRTAB" in _malformed(put(content, value(14), size))


def test_a_string_table_without_a_nul_behind_it_is_malformed() -> None:
    content = BUILT["without section headers"]
    moved = put(put(content, value(5), len(content)), value(10), 4)  # a page is mapped
    assert "beyond the end of DT_STRTAB" in _malformed(moved + b"x" * 8)


def test_a_chain_that_stands_still_is_malformed() -> None:
    content = BUILT["without section headers"]
    fault = "a chain of version records does not end at its count"
    assert fault in _malformed(put(content, value(0x6FFFFFFF), 30000))
    assert fault in _malformed(put(content, value(0x6FFFFFFF), 1 << 40))


def test_absurd_sizes_are_malformed_before_anything_is_read() -> None:
    content = BUILT["without section headers"]
    assert "DT_STRTAB has" in _malformed(put(content, value(10), 1 << 40))
    huge = bytearray(BUILT["with section headers"])
    struct.pack_into("<H", huge, 60, 0)  # e_shnum 0: the number is in section header 0
    struct.pack_into("<Q", huge, int.from_bytes(huge[40:48], "little") + 32, 1 << 40)
    assert "the section headers end at byte" in _malformed(bytes(huge))
    buckets = bytearray(content)
    struct.pack_into("<I", buckets, get(content, value(_DT_GNU_HASH)), 0xFFFFFFFF)
    assert "DT_GNU_HASH has 0x3fffffffc bytes" in _malformed(bytes(buckets))


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (15, "the file ends within the ELF identification"),
        (16, "the file ends within the ELF header"),
        (63, "the file ends within the ELF header"),
        (64, "the program headers end at byte"),
    ],
)
def test_a_file_that_ends_within_its_first_headers(length: int, reason: str) -> None:
    assert reason in _malformed(BUILT["with section headers"][:length])


@pytest.mark.parametrize("place", [4, 5, 6])  # the class, the byte order, the version
def test_an_identification_that_no_loader_takes(place: int) -> None:
    for byte in (0, 2 if place == 6 else 3):
        content = put(BUILT["with section headers"], identification(place), byte)
        shown = content[4:7].hex(" ")
        assert _malformed(content) == f"impossible ELF identification {shown}"


def test_counts_of_more_than_16_bits_stand_in_the_first_section() -> None:
    content = bytearray(build_elf(**COMMON, debug_sections=(".debug_info",)))
    expected, start = _all_of(_read(bytes(content))), int.from_bytes(content[40:48], "little")
    segments, _, count, names = struct.unpack_from("<4H", content, 56)
    struct.pack_into("<QII", content, start + 32, count, names, segments)
    for kept in (count, 0):
        struct.pack_into("<H2xHH", content, 56, 0xFFFF, kept, 0xFFFF)
        assert _all_of(_read(bytes(content))) == expected


def test_names_that_overlap_do_not_explode() -> None:
    # 2,000 symbols whose names are suffixes of one long name.
    exports = tuple(ElfSymbol(f"s{number:04}") for number in range(2000))
    content = bytearray(build_elf(needed=("n" * 60_000,), exports=exports, section_headers=False))
    found = _read(bytes(content))
    assert isinstance(found, ElfFile)
    table, long = get(content, value(6)), content.index(b"n" * 60_000)
    strings = get(content, value(5))  # in the first segment, addresses are offsets
    for number in range(2000):
        struct.pack_into("<I", content, table + 24 * (number + 1), long - strings + number)
    found = _read(bytes(content))
    assert isinstance(found, UnreadObject)
    assert found.reason == "its symbols overlap: together they are longer than the file"


def test_a_library_without_a_dynamic_segment_is_malformed() -> None:
    content = put(BUILT["without section headers"], segment(2, "type"), 0x6FFFFFFF)
    assert "without a dynamic segment" in _malformed(content)
