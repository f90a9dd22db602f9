"""A damaged Mach-O file is malformed, or reads as what it still is; it never hangs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binary_checks.model import MachOFile, MalformedObject, UnreadObject
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import (
    LC_BUILD_VERSION,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO_ONLY,
    LC_LOAD_DYLIB,
    LC_SYMTAB,
)
from fixtures.samples import expected_macho_facts, read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import patched, place_of, table

NAMES = sorted(set(expected_macho_facts()) - {"debug.dSYM", "relocatable.o"})
SMALL = ["weak.so", "chained.so", "libdep.1.dylib", "libdep_arm64.1.dylib", "universal2.dylib"]


def _read(content: bytes) -> tuple[object, ...]:
    return tuple(_all_of(item) for item in read_objects("a.so", Bytes(content)))


def _all_of(found: object) -> object:
    """Return all facts, also those read on demand, except the size."""
    if not isinstance(found, MachOFile):
        return found
    facts = {n: getattr(found, n) for n in MachOFile.__dataclass_fields__ if n != "size"}
    return facts | {"imports": list(found.imports), "exports": list(found.exports)}


def _malformed(content: bytes) -> str:
    (found,) = read_objects("a.so", Bytes(content))
    assert isinstance(found, MalformedObject), found
    return found.reason


def _lengths(content: bytes) -> list[int]:
    """Return every length within headers and tables, and every 64th between them."""
    size = len(content)
    return sorted({*range(4, 1200), *range(1200, size, 64), *range(size - 1200, size)})


@pytest.mark.parametrize("name", SMALL)
def test_a_file_cut_at_any_length_is_malformed(name: str) -> None:
    whole = read_macho_sample(name)
    for length in _lengths(whole)[4:]:  # a fat file needs its first eight bytes
        (found,) = read_objects("a.so", Bytes(whole[:length]))
        assert isinstance(found, MalformedObject), length


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_sample_cut_at_every_length_is_malformed(name: str) -> None:
    whole = read_macho_sample(name)
    for length in range(8, len(whole)):
        (found,) = read_objects("a.so", Bytes(whole[:length]))
        assert isinstance(found, MalformedObject), length


@pytest.mark.parametrize(
    "name", [*SMALL[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in SMALL[2:4])]
)
def test_any_single_byte_may_be_wrong(name: str) -> None:
    content = read_macho_sample(name)
    places = [at for at in _lengths(content) if content[at : at + 1] != b"\0" or at < 1200]
    for place in places:
        for value in {0, 0x7F, 0xFF} - {content[place]}:
            _read(patched(content, place, "B", value))


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    stomps=st.lists(
        st.tuples(
            st.integers(4, 60_000),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(8), b"\0\0\0\x80"]),
            ),
        ),
        min_size=1,
        max_size=8,
    ),
)
@example(name="universal2.dylib", stomps=[(4, b"\xff" * 8)])
def test_any_bytes_may_be_wrong(name: str, stomps: list[tuple[int, bytes]]) -> None:
    content = bytearray(read_macho_sample(name))
    for number, value in stomps:
        place = number % (len(content) - 8)
        content[place : place + len(value)] = value
    source = Bytes(bytes(content))
    for found in read_objects("a.so", source):
        assert isinstance(found, (MachOFile, MalformedObject, UnreadObject))
        _all_of(found)
    assert sum(end - start for start, end in source.asked) <= 40 * len(content) + 1000


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xce", b"\xca\xfe\xba\xbe\0\0\0\1"]),
    st.binary(max_size=300),
)
def test_noise_behind_the_magic_is_malformed(magic: bytes, noise: bytes) -> None:
    assert all(isinstance(found, (MalformedObject, UnreadObject)) for found in _read(magic + noise))


def test_a_dylib_that_is_not_there_is_malformed() -> None:
    content = read_macho_sample("plain.dylib")
    changed = patched(content, place_of(content, LC_LOAD_DYLIB), "I", 0x99)
    assert "is bound to dylib 1, which does not exist" in _malformed(changed)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (0, 1, "version 1"),
        (1, 1 << 30, "too few"),
        (3, 1 << 30, "too few"),
        (4, 1 << 30, "too few"),
        (5, 4, "imports of format 4"),
        (6, 1, "names of format 1"),
    ],
)
def test_chained_fixups_that_contradict_themselves_are_malformed(
    field: int, value: int, reason: str
) -> None:
    content = read_macho_sample("chained.so")
    start, _ = table(content, LC_DYLD_CHAINED_FIXUPS)
    assert reason in _malformed(patched(content, start + 4 * field, "I", value))


@pytest.mark.parametrize(
    ("offset", "layout", "value", "reason"),
    [
        (16, "I", 0xFFFFFFFF, "past the end of all load commands"),
        (16, "I", 60, "past the end of all load commands"),
        (20, "I", 0x7FFFFFFF, "load commands end at byte"),
        (20, "I", 16, "load command 0 claims 0x98 bytes"),
        (36, "I", 0, "claims 0x0 bytes"),
        (36, "I", 0x10000, "claims 0x10000 bytes"),
        (64, "Q", 1, "larger in the file than in memory"),
        (72, "Q", 1 << 40, "segment __TEXT ends at byte"),
    ],
)
def test_headers_that_contradict_themselves_are_malformed(
    offset: int, layout: str, value: int, reason: str
) -> None:
    content = read_macho_sample("libdep.1.dylib")
    assert reason in _malformed(patched(content, offset, layout, value))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("weak.so", LC_DYLD_INFO_ONLY), ("weak.so", LC_SYMTAB), ("chained.so", LC_DYLD_EXPORTS_TRIE)],
)
def test_a_table_outside_of_the_file_is_malformed(name: str, kind: int) -> None:
    content = read_macho_sample(name)
    place = place_of(content, kind)
    (start,) = struct.unpack_from("<I", content, place + 8)
    assert "the file has" in _malformed(patched(content, place + 8, "II", start, 0x7FFFFFF))


def test_the_last_of_the_symbols_is_outside_of_the_file() -> None:
    content = read_macho_sample("weak.so")
    place = place_of(content, LC_SYMTAB) + 8
    changed = patched(content, place, "II", len(content) - 31, 2)
    assert "a table of __LINKEDIT ends at byte" in _malformed(changed)


def test_a_name_outside_of_its_command_is_malformed() -> None:
    content = read_macho_sample("plain.dylib")
    place = place_of(content, LC_LOAD_DYLIB)
    for start, reason in ((0, "lies outside of it"), (4000, "lies outside of it")):
        assert reason in _malformed(patched(content, place + 8, "I", start))


def test_two_versions_of_one_platform_are_malformed() -> None:
    content = read_macho_sample("zippered.dylib")
    changed = patched(content, place_of(content, LC_BUILD_VERSION) + 8, "I", 1)
    assert "two minimum versions of macos" in _malformed(changed)


@pytest.mark.parametrize(
    ("place", "layout", "values", "reason"),
    [
        (4, ">I", (40,), "the slice for cpu 0x0 lies from byte 0x0"),
        (16, ">I", (0x7FFFFFFF,), "lies from byte 0x7fffffff"),
        (16, ">I", (47,), "lies from byte 0x2f"),
        (16, ">I", (48,), "a slice begins with 00 00 00 00, which is not a Mach-O"),
        (24, ">I", (16,), "is aligned to 2**16 bytes"),
        (28, ">II", (0x01000007, 3), "two slices for x86_64"),
        (36, ">I", (0x1000,), "outside of the file or in another slice"),
        (8, ">I", (7,), "the fat header says i686, but the slice says x86_64"),
        (40, ">I", (31,), "ends within the Mach-O header"),
        (40, ">I", (32,), "the load commands end"),
    ],
)
def test_a_fat_header_that_lies_is_malformed(
    place: int, layout: str, values: tuple[int, ...], reason: str
) -> None:
    content = bytearray(read_macho_sample("universal2.dylib"))
    struct.pack_into(layout, content, place, *values)
    assert reason in _malformed(bytes(content))


@pytest.mark.parametrize(
    ("sample", "length", "reason"),
    [
        ("plain.dylib", 7, "the file ends within the magic number"),
        ("plain.dylib", 8, "the file ends within the Mach-O header"),
        ("universal2.dylib", 47, "the file ends within the fat header"),
        ("universal2.dylib", 48, "outside of the file"),
    ],
)
def test_a_file_that_ends_within_its_first_header(sample: str, length: int, reason: str) -> None:
    assert reason in _malformed(read_macho_sample(sample)[:length])


def test_a_slice_that_is_damaged_is_named() -> None:
    content = bytearray(read_macho_sample("universal2.dylib"))
    (start,) = struct.unpack_from(">I", content, 36)
    struct.pack_into("<I", content, start + 16, 0xFFFF)
    (found,) = read_objects("a.so", Bytes(bytes(content)))
    assert isinstance(found, MalformedObject)
    assert found.reason.startswith("slice for aarch64: ")
    assert found.offset > start
