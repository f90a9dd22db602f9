"""What keeps dyld from mapping or binding a Mach-O file is said; each mutation is one field."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import Kind, MachOFile, MalformedObject
from binary_checks.objects import read_objects
from binary_checks.objects.macho.commands import (
    LC_BUILD_VERSION,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_INFO_ONLY,
    LC_DYSYMTAB,
    LC_FUNCTION_STARTS,
    LC_ID_DYLIB,
    LC_LOAD_DYLIB,
    LC_LOAD_DYLINKER,
    LC_SEGMENT_64,
    LC_SYMTAB,
    LC_UUID,
    LC_VERSION_MIN_IPHONEOS,
)
from fixtures.samples import FOLDER, read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import commands, patched, place_of, table

NAMES = sorted(path.name for path in (FOLDER / "macho").iterdir())
WEAK = read_macho_sample("weak.so")
CHAINED = read_macho_sample("chained.so")
DYLIB = read_macho_sample("plain.dylib")


def refusals(content: bytes) -> str:
    (found,) = read_objects("a.so", Bytes(content))
    assert isinstance(found, MachOFile), found
    return "; ".join(found.refusals)


def segment(content: bytes, name: bytes) -> int:
    """Where the load command of that segment begins."""
    places = (place for kind, place, _ in commands(content) if kind == LC_SEGMENT_64)
    return next(place for place in places if content[place + 8 :].startswith(name + b"\0"))


def opcodes(content: bytes, number: int) -> tuple[int, int]:
    """Where the table lies: 0 rebases, 1 binds, 2 weak binds, 3 lazy binds, 4 exports."""
    place = place_of(content, LC_DYLD_INFO_ONLY) + 8 + 8 * number
    start, size = struct.unpack_from("<II", content, place)
    return start, size


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_is_refused(name: str) -> None:
    for found in read_objects("a.so", Bytes(read_macho_sample(name))):
        assert isinstance(found, MachOFile)
        assert found.refusals == ()


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (4, 7, "is for CPU type 0x7 and has a header of 64 bits"),
        (4, 0x01000012, "has its numbers in the wrong byte order"),
        (16, struct.unpack_from("<I", WEAK, 16)[0] - 1, "load commands, which end at byte"),
        (place_of(WEAK, LC_UUID), 0x80000099, "load command 0x80000099, which dyld must know"),
        (place_of(WEAK, LC_UUID), LC_FUNCTION_STARTS, "table of load command 0x26"),
        (segment(WEAK, b"__DATA") + 72 + 56, 0x2000, "has relocations of section"),
        (place_of(WEAK, LC_LOAD_DYLIB) + 8, 0x10, "the name of load command 0xc begins within"),
        (segment(WEAK, b"__TEXT") + 8, 0x41414141, "has no segment __TEXT"),
        (segment(WEAK, b"__TEXT") + 60, 0x1, "has __TEXT with permissions 0x1"),
        (segment(WEAK, b"__TEXT") + 60, 0x1005, "permissions 0x1005, which no page can have"),
        (segment(WEAK, b"__TEXT") + 48, 0x20, "which leaves out its load commands"),
        (segment(WEAK, b"__DATA") + 24, 0x123, "which begins no page"),
        (segment(WEAK, b"__DATA") + 24, 0x0, "and __DATA that overlap in memory"),
        (segment(WEAK, b"__DATA") + 40, 0x0, "and __DATA that overlap in the file"),
        (segment(WEAK, b"__DATA") + 28, 0xFFFFFFFF, "not in __DATA"),
        (segment(WEAK, b"__DATA") + 32, 0x7, "segment __DATA is larger in the file"),
        (segment(WEAK, b"__DATA") + 48, 0x0, "beyond what __DATA has in the file"),
        (segment(WEAK, b"__DATA") + 72 + 16, 0x41414141, "in __DATA"),
        (segment(WEAK, b"__DATA") + 72 + 40, 0x11, "that overlap in __DATA"),
        (segment(WEAK, b"__DATA") + 72 + 48, 0x1800, "not at 0x1000"),
        (segment(WEAK, b"__LINKEDIT") + 8, 0x41414141, "has no segment __LINKEDIT"),
        (segment(WEAK, b"__LINKEDIT") + 60, 0x0, "has __LINKEDIT with permissions 0x0"),
        (place_of(WEAK, LC_SYMTAB), LC_FUNCTION_STARTS, "of LC_SYMTAB and LC_DYSYMTAB without"),
        (place_of(WEAK, LC_SYMTAB) + 8, 0x1000, "the symbol table at byte 0x1000, outside of"),
        (place_of(WEAK, LC_SYMTAB) + 8, 0x2000, "in the bytes of another table"),
        (place_of(WEAK, LC_DYSYMTAB) + 24, 0x99, "counts undefined symbols 153 to"),
    ],
)
def test_a_field_of_a_bundle(place: int, value: int, fault: str) -> None:
    content = patched(WEAK, place, "I", value)
    (found,) = read_objects("a.so", Bytes(content))
    said = found.reason if isinstance(found, MalformedObject) else "; ".join(found.refusals)
    assert fault in said


def test_the_name_of_a_dylib_belongs_to_dylibs() -> None:
    without = patched(DYLIB, place_of(DYLIB, LC_ID_DYLIB), "I", LC_LOAD_DYLIB)
    assert "is a dylib without LC_ID_DYLIB" in refusals(without)
    assert "has LC_ID_DYLIB and is no dylib" in refusals(patched(DYLIB, 12, "I", 8))


def test_some_commands_are_there_once() -> None:
    symtab = place_of(WEAK, LC_SYMTAB)
    twice = patched(WEAK, place_of(WEAK, LC_UUID), "24s", WEAK[symtab : symtab + 24])
    assert "has 2 load commands LC_SYMTAB" in refusals(twice)
    for_phones = patched(WEAK, place_of(WEAK, LC_FUNCTION_STARTS), "I", LC_VERSION_MIN_IPHONEOS)
    assert "has 2 load commands LC_VERSION_MIN" in refusals(for_phones)


def test_the_tools_of_a_build_version_have_room() -> None:
    changed = patched(CHAINED, place_of(CHAINED, LC_BUILD_VERSION) + 20, "I", 9)
    assert "LC_BUILD_VERSION of" in refusals(changed)
    assert "for 9 tools" in refusals(changed)


def test_an_encrypted_file() -> None:
    assert refusals(WEAK) == ""
    place = place_of(WEAK, LC_UUID)
    encrypted = patched(WEAK, place, "6I", 0x2C, 24, 0, 0, 1, 0)
    assert "is encrypted" in refusals(encrypted)
    assert "is encrypted" not in refusals(patched(WEAK, place, "6I", 0x2C, 24, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("number", "changed", "fault"),
    [
        (0, b"\x11\x29\x00", "a rebase names segment 9 of 3"),
        (0, b"\x11\x21\xff\xff\x03\x51", "a rebase writes at 0xffff, where no section is"),
        (0, b"\x11\x21\x00\x80\xff\xff\x03\x51", "a rebase writes at"),
        (0, b"\x11\x51", "a rebase writes before any segment was named"),
        (0, b"\x19", "a rebase is of type 9"),
        (0, b"\xf0", "a rebase is 0xf0, which is no opcode"),
        (0, b"\x00", "a rebase ends the table"),
        (1, b"\x00", "a bind ends the table"),
        (3, b"\xb0", "a lazy bind is 0xb0, which binds at once"),
    ],
)
def test_opcodes_that_lead_nowhere(number: int, changed: bytes, fault: str) -> None:
    start, _ = opcodes(WEAK, number)
    said = refusals(patched(WEAK, start, f"{len(changed)}s", changed))
    assert fault in said


def test_a_bind_in_a_segment_that_is_not_there() -> None:
    start, size = opcodes(WEAK, 1)
    at = WEAK.index(b"\x11q\0", start, start + size) + 1
    assert "a bind names segment 14 of 3" in refusals(patched(WEAK, at, "B", 0x7E))


def test_a_symbol_that_lost_its_bind() -> None:
    start, size = opcodes(WEAK, 3)
    assert size
    lost = patched(WEAK, start, f"{size}s", b"")
    assert "undefined and has no bind for it" in refusals(lost)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (b"\x04\x00\x00\x00\x00", "an export ends at"),
        (b"\x02\x03\x00\x00", "an export of kind 3 (at 0x1 of the trie)"),
        (b"\x00\x00a\x00", "(at 0x0) leads to no export"),
        (b"\x00\x01a\x00\x05\x00\x00", "(at 0x5) leads to no export"),
        (b"\x00\x01a\x00\x05\x02\x00\x08\x00", ""),
    ],
)
def test_nodes_of_the_exports_trie(changed: bytes, fault: str) -> None:
    start, size = opcodes(WEAK, 4)
    (found,) = read_objects("a.so", Bytes(patched(WEAK, start, f"{size}s", changed)))
    if fault:
        assert isinstance(found, MalformedObject)
        assert fault in found.reason
    else:
        assert isinstance(found, MachOFile)
        assert found.refusals == ()


@pytest.mark.parametrize("kind", [0x3, 0xE, 0x80000028])
def test_commands_that_no_library_has(kind: int) -> None:
    changed = patched(WEAK, place_of(WEAK, LC_UUID), "I", kind)
    assert f"has load command {kind:#x}, which no such file has" in refusals(changed)


def starts(content: bytes) -> int:
    """Where the starts of the first segment with chains lie."""
    place, _ = table(content, LC_DYLD_CHAINED_FIXUPS)
    (first,) = struct.unpack_from("<I", content, place + 4)
    (count,) = struct.unpack_from("<I", content, place + first)
    offsets = struct.unpack_from(f"<{count}I", content, place + first + 4)
    return place + first + next(filter(None, offsets))


@pytest.mark.parametrize(
    ("place", "kind", "value", "fault"),
    [
        (4, "H", 0x1234, "of pages of 0x1234 bytes"),
        (6, "H", 99, "pointers of format 99"),
        (8, "Q", 0x5000, "at 0x5000, the segment is at"),
        (20, "H", 999, "of 999 pages in a table of"),
        (22, "H", 0x7777, "that begin at byte 0x7777 of a page"),
        (22, "H", 0xFFE, "out of its page or its bytes"),
    ],
)
def test_starts_of_chains(place: int, kind: str, value: int, fault: str) -> None:
    assert fault in refusals(patched(CHAINED, starts(CHAINED) + place, kind, value))


def test_a_chain_that_leaves_its_page_or_binds_what_is_not_there() -> None:
    (offset,) = struct.unpack_from("<Q", CHAINED, starts(CHAINED) + 8)
    (begin,) = struct.unpack_from("<H", CHAINED, starts(CHAINED) + 22)
    places = (place for kind, place, _ in commands(CHAINED) if kind == LC_SEGMENT_64)
    rows = (struct.unpack_from("<4Q", CHAINED, place + 24) for place in places)
    at = next(row[2] for row in rows if row[0] == offset) + begin
    (pointer,) = struct.unpack_from("<Q", CHAINED, at)
    far = patched(CHAINED, at, "Q", pointer | 0xFFF << 51)
    assert "out of its page or its bytes" in refusals(far)
    unlisted = patched(CHAINED, at, "Q", pointer | 0xFFFFFF | 1 << 63)
    assert "that bind import 16777215 of" in refusals(unlisted)


def test_more_chains_than_segments() -> None:
    place, _ = table(CHAINED, LC_DYLD_CHAINED_FIXUPS)
    (first,) = struct.unpack_from("<I", CHAINED, place + 4)
    changed = patched(CHAINED, place + first, "I", 99)
    assert "has chained fixups of 99 segments" in refusals(changed)


def test_a_program_asks_for_its_dynamic_linker() -> None:
    program = read_macho_sample("program")
    changed = patched(program, place_of(program, LC_LOAD_DYLINKER) + 8, "I", 0x99)
    assert "asks for a dynamic linker whose name does not lie" in refusals(changed)
    far = patched(program, segment(program, b"__PAGEZERO") + 40, "Q", 1 << 40)
    assert "has segment __PAGEZERO at byte 0x10000000000, after all others" in refusals(far)


def test_a_slice_that_is_aligned_to_more_than_there_is() -> None:
    content = bytearray(read_macho_sample("universal2.dylib"))
    struct.pack_into(">I", content, 8 + 16, 16)
    (found,) = read_objects("a.so", Bytes(bytes(content)))
    assert isinstance(found, MalformedObject)
    assert "is aligned to 2**16 bytes" in found.reason


def test_another_kind_of_file_is_no_library() -> None:
    (found,) = read_objects("a.so", Bytes(patched(WEAK, 12, "I", 4)))
    assert isinstance(found, MachOFile)
    assert found.kind is Kind.OTHER
