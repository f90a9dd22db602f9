"""What keeps dyld from mapping a Mach-O file is reported; each mutation is one field."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import Kind, MachOFile, MalformedObject
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import (
    LC_BUILD_VERSION,
    LC_DYLD_INFO_ONLY,
    LC_DYSYMTAB,
    LC_FUNCTION_STARTS,
    LC_ID_DYLIB,
    LC_LOAD_DYLIB,
    LC_LOAD_DYLINKER,
    LC_RPATH,
    LC_SEGMENT_64,
    LC_SYMTAB,
    LC_UUID,
    LC_VERSION_MIN_IPHONEOS,
)
from fixtures.samples import FOLDER, read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import commands, patched, place_of

NAMES = sorted(path.name for path in (FOLDER / "macho").iterdir())
WEAK = read_macho_sample("weak.so")
CHAINED = read_macho_sample("chained.so")
DYLIB = read_macho_sample("plain.dylib")


def refusals(content: bytes) -> str:
    (found,) = read_objects("a.so", Bytes(content))
    assert isinstance(found, MachOFile), found
    return "; ".join(found.refusals)


def segment(content: bytes, name: bytes) -> int:
    """Return the offset of the load command of a segment."""
    places = (place for kind, place, _ in commands(content) if kind == LC_SEGMENT_64)
    return next(place for place in places if content[place + 8 :].startswith(name + b"\0"))


def opcodes(content: bytes, number: int) -> tuple[int, int]:
    """Return a table of LC_DYLD_INFO: 0 rebases, 1 binds, 2 weak binds, 3 lazy binds, 4 exports."""
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
        (place_of(WEAK, LC_UUID), 0x80000099, "load command 0x80000099, which dyld does not know"),
        (place_of(WEAK, LC_UUID), LC_FUNCTION_STARTS, "table of load command 0x26"),
        (segment(WEAK, b"__DATA") + 72 + 56, 0x2000, "has relocations of section"),
        (place_of(WEAK, LC_LOAD_DYLIB) + 8, 0x10, "the name of load command 0xc begins within"),
        (segment(WEAK, b"__TEXT") + 8, 0x41414141, "has no segment __TEXT"),
        (segment(WEAK, b"__TEXT") + 60, 0x1, "has __TEXT with permissions 0x1"),
        (segment(WEAK, b"__TEXT") + 60, 0x1005, "permissions 0x1005, which no page can have"),
        (segment(WEAK, b"__TEXT") + 48, 0x20, "which leaves out its load commands"),
        (segment(WEAK, b"__DATA") + 24, 0x123, "which is not the start of a page"),
        (segment(WEAK, b"__DATA") + 24, 0x0, "and __DATA that overlap in memory"),
        (segment(WEAK, b"__DATA") + 40, 0x0, "and __DATA that overlap in the file"),
        (segment(WEAK, b"__DATA") + 28, 0xFFFFFFFF, "not in __DATA"),
        (segment(WEAK, b"__DATA") + 32, 0x7, "segment __DATA is larger in the file"),
        (segment(WEAK, b"__DATA") + 48, 0x0, "beyond the bytes of __DATA in the file"),
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
    assert "has LC_ID_DYLIB but is not a dylib" in refusals(patched(DYLIB, 12, "I", 8))


def test_some_commands_are_there_once() -> None:
    symtab = place_of(WEAK, LC_SYMTAB)
    twice = patched(WEAK, place_of(WEAK, LC_UUID), "24s", WEAK[symtab : symtab + 24])
    assert "has 2 load commands LC_SYMTAB" in refusals(twice)
    for_phones = patched(WEAK, place_of(WEAK, LC_FUNCTION_STARTS), "I", LC_VERSION_MIN_IPHONEOS)
    assert "has 2 load commands LC_VERSION_MIN" in refusals(for_phones)


def test_a_command_of_another_size_than_its_type_has() -> None:
    changed = patched(DYLIB, place_of(DYLIB, LC_UUID), "I", 0x1A)
    assert "has load command 0x1a of 24 bytes, not 72" in refusals(changed)


@pytest.mark.parametrize(
    ("sample", "kind", "start"),
    [("install_name_absolute.dylib", LC_ID_DYLIB, 24), ("rpaths.so", LC_RPATH, 12)],
)
def test_a_name_begins_behind_the_fields(sample: str, kind: int, start: int) -> None:
    content = read_macho_sample(sample)
    place = place_of(content, kind)
    assert struct.unpack_from("<I", content, place + 8) == (start,)
    (found,) = read_objects("a.so", Bytes(patched(content, place + 8, "I", start - 1)))
    assert isinstance(found, MalformedObject)
    assert "begins within its fields" in found.reason


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


@pytest.mark.parametrize("kind", [0x3, 0x27, 0x80000028])
def test_commands_that_no_library_has(kind: int) -> None:
    changed = patched(WEAK, place_of(WEAK, LC_UUID), "I", kind)
    assert f"has load command {kind:#x}, which a file of this type cannot have" in refusals(changed)


def test_dyld_ignores_the_name_of_a_dynamic_linker_in_a_library() -> None:
    place = place_of(WEAK, LC_UUID)
    changed = patched(patched(WEAK, place, "I", LC_LOAD_DYLINKER), place + 8, "I", 12)
    assert not refusals(changed)


def test_a_program_asks_for_its_dynamic_linker() -> None:
    program = read_macho_sample("program")
    changed = patched(program, place_of(program, LC_LOAD_DYLINKER) + 8, "I", 0x99)
    assert "names a dynamic linker outside its load command" in refusals(changed)
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
