"""Fields that contradict a Mach-O file are noticed; each mutation is one field."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import MachOFile, MalformedObject
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import LC_DYLD_INFO_ONLY, LC_ID_DYLIB, LC_RPATH
from fixtures.samples import FOLDER, read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import patched, place_of

NAMES = sorted(path.name for path in (FOLDER / "macho").iterdir())
WEAK = read_macho_sample("weak.so")


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_is_malformed(name: str) -> None:
    for found in read_objects("a.so", Bytes(read_macho_sample(name))):
        assert isinstance(found, MachOFile)


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
    assert "lies outside of it" in found.reason


def opcodes(content: bytes, number: int) -> tuple[int, int]:
    """Return a table of LC_DYLD_INFO: 0 rebases, 1 binds, 2 weak binds, 3 lazy binds, 4 exports."""
    place = place_of(content, LC_DYLD_INFO_ONLY) + 8 + 8 * number
    start, size = struct.unpack_from("<II", content, place)
    return start, size


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (b"\x00\x01a\x00\xff\xff\x7f", "the exports trie runs beyond its end"),
        (b"\x00\x01a\x00\x00", "two edges of the exports trie lead to its byte 0x0"),
        (b"\x00\x01a\x00\x05\x02\x08\x09\x00", "a is bound to dylib 9, which does not exist"),
        (b"\x00\x01a\x00\x05\x02\x00\x08\x00", ""),
    ],
)
def test_nodes_of_the_exports_trie_of_a_file_without_a_signature(
    changed: bytes, fault: str
) -> None:
    start, size = opcodes(WEAK, 4)
    (found,) = read_objects("a.so", Bytes(patched(WEAK, start, f"{size}s", changed)))
    if fault:
        assert isinstance(found, MalformedObject)
        assert fault in found.reason
    else:
        assert isinstance(found, MachOFile)
