"""Opcodes and load commands of Mach-O files that lost a part are told; whole ones are not."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import MachOFile, MalformedObject
from binary_checks.objects import read_objects
from binary_checks.objects.macho.commands import LC_ID_DYLIB, LC_RPATH, LC_UUID
from binary_checks.objects.macho.opcodes import find_opcode_faults
from binary_checks.objects.macho.segments import MachSection, Segment
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import patched, place_of

DATA = MachSection("__data", "__DATA", 0x1000, 0x100, 0, 0, 0)
SEGMENT = Segment("__DATA", 0x1000, 0x1000, 0, 0x1000, 3, (DATA,), True, None)  # type: ignore[arg-type]


def faults(number: int, table: bytes) -> str:
    tables = [b"", b"", b"", b""]
    tables[number] = table
    return "; ".join(find_opcode_faults(tables, [SEGMENT], 64, dylibs=3))


@pytest.mark.parametrize(
    ("number", "table", "fault"),
    [
        (0, b"\x11\x20\x08\x51\x00", ""),
        (0, b"\x11\x20\x08\x00", "a rebase names 0x8 and writes nothing there"),
        (0, b"\x20\x08\x51\x00", "a rebase writes before any type was named"),
        (1, b"\x11\x40_a\x00\x51\x70\x00\x90\x00", ""),
        (1, b"\x3e\x40_a\x00\x51\x70\x00\x90\x00", ""),
        (1, b"\x40_a\x00\x51\x70\x00\x90\x00", "a bind writes before any dylib was named"),
        (1, b"\x11\x51\x70\x00\x90\x00", "a bind writes before any symbol was named"),
        (1, b"\x14\x40_a\x00\x51\x70\x00\x90\x00", "a bind asks dylib 4, of 3"),
        (1, b"\x20\x04\x40_a\x00\x51\x70\x00\x90\x00", "a bind asks dylib 4, of 3"),
        (1, b"\x3a\x40_a\x00\x51\x70\x00\x90\x00", "a bind asks dylib -6, of 3"),
        (2, b"\x40_a\x00\x51\x70\x00\x90\x00", ""),
        (3, b"\x70\x00\x11\x40_a\x00\x90\x00", ""),
        (3, b"\x70\x00\x40_a\x00\x90\x00", "a lazy bind writes before any dylib was named"),
    ],
)
def test_a_write_needs_all_that_comes_before_it(number: int, table: bytes, fault: str) -> None:
    assert faults(number, table) == (fault and f"has opcodes of which {fault}")


def test_a_command_of_another_size_than_its_type_has() -> None:
    content = read_macho_sample("plain.dylib")
    (found,) = read_objects("a.so", Bytes(patched(content, place_of(content, LC_UUID), "I", 0x1A)))
    assert isinstance(found, MachOFile)
    assert "has load command 0x1a of 24 bytes, not 72" in found.refusals


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
