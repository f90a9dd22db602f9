"""What exceeds a limit is reported as not read: it is no fault of the file."""

from __future__ import annotations

import struct

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model import MachOFile, PeFile, UnreadObject
from binary_checks.objects import LimitedSource, read_objects
from binary_checks.objects.byte_source import FilePart
from binary_checks.objects.macho import header as macho_header
from binary_checks.objects.macho import signature as macho_signature
from binary_checks.objects.macho import symbols as macho_symbols
from binary_checks.objects.macho.header import (
    LC_CODE_SIGNATURE,
    LC_SYMTAB,
    Command,
    MachHeader,
)
from binary_checks.objects.macho.symbols import read_nlist
from binary_checks.objects.pe import header as pe_header
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive, container, entry
from fixtures.samples import read_macho_sample, read_pe_sample
from tests.objects.byte_sources import Bytes
from tests.objects.device_codes import read_device
from tests.objects.macho_bytes import patched, table


def _unread(content: bytes) -> str:
    (found,) = read_objects("demo/a", Bytes(content))
    assert isinstance(found, UnreadObject), found
    assert found.too_large
    assert found.path == "demo/a"
    return found.reason


@pytest.mark.parametrize(
    ("name", "limit", "most", "reason"),
    [
        ("pdb.dll", "_LONGEST_RECORD", 26, "bytes in its CodeView record; at most"),
    ],
)
def test_an_image_with_more_than_we_read_is_unread(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: str, most: int, reason: str
) -> None:
    monkeypatch.setattr(pe_header, limit, most)
    assert reason in _unread(read_pe_sample(name))


def test_an_image_may_lie_far_behind_its_dos_program() -> None:
    content, stub = read_pe_sample("pdb.dll"), 2 << 20
    (start,) = struct.unpack_from("<I", content, 60)
    moved = bytearray(content.ljust(stub, b"\0") + content[start:4096])
    struct.pack_into("<I", moved, 60, stub)
    (found,) = read_objects("demo/a", Bytes(bytes(moved)))
    (expected,) = read_objects("demo/a", Bytes(content))
    assert isinstance(found, PeFile)
    assert isinstance(expected, PeFile)
    assert (found.pdb, found.needed) == (expected.pdb, expected.needed)


def test_more_load_commands_than_we_read_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macho_header, "_MOST_BYTES", 100)
    content = read_macho_sample("weak.so")
    assert "bytes of load commands; at most 100 are read" in _unread(content)


def test_of_a_fat_file_each_slice_is_unread_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    content = read_macho_sample("universal2.dylib")
    sizes = []
    for number in range(2):
        (start,) = struct.unpack_from(">I", content, 16 + 20 * number)
        sizes.append(struct.unpack_from("<I", content, start + 20)[0])
    assert sizes[0] != sizes[1]
    monkeypatch.setattr(macho_header, "_MOST_BYTES", min(sizes))
    found = read_objects("demo/a", Bytes(content))
    assert {type(item) for item in found} == {MachOFile, UnreadObject}
    (unread,) = (item.reason for item in found if isinstance(item, UnreadObject))
    assert unread.startswith("slice for ")
    assert f"it has {max(sizes)} bytes of load commands" in unread


def test_more_parts_of_a_signature_than_we_read_are_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(macho_signature, "_MOST_BLOBS", 0)
    reason = _unread(read_macho_sample("signed_arm64.dylib"))
    assert reason == "it has 1 parts in its code signature; at most 0 are read"


def test_names_of_a_symbol_table_that_explode_are_not_read() -> None:
    names = b"n" * 60_000 + b"\0"
    content = struct.pack("<IBBHQ", 0, 0x0F, 1, 0, 0) * 30 + names
    header = MachHeader(64, "<", 0, 0, 6, 1, 24, 0)
    contents = struct.pack("<6I", LC_SYMTAB, 24, 0, 30, 480, len(names))
    source = FilePart(LimitedSource(Bytes(content)), 0, len(content))
    with pytest.raises(Unavailable, match="longer than the file"):
        read_nlist(source, header, Command(LC_SYMTAB, 0, contents, header))
    small = LimitedSource(Bytes(b"a"))
    small.charge_symbol(1 + (1 << 20))
    with pytest.raises(Unavailable, match="its symbols overlap"):
        small.charge_symbol(1)


def test_what_a_trie_has_too_much_of_is_told_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macho_symbols, "_MOST_OF_NAMES", 1)
    content = read_macho_sample("signed_arm64.dylib")
    (found,) = read_objects("demo/a", Bytes(content))
    assert isinstance(found, MachOFile)  # the trie is only walked when a check asks for it
    with pytest.raises(
        Unavailable, match=r"the exports of demo/a are unknown: .* too long together"
    ):
        list(found.exports)
    place, _ = table(content, LC_CODE_SIGNATURE)
    assert "the names of the exports trie are too long together" in _unread(
        patched(content, place, "I", 0)
    )


def _big_object(sections: int, claimed: int) -> bytes:
    kind = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
    numbers = (0, 0xFFFF, 2, 0x8664, 0, kind, claimed, 0, 0)
    return struct.pack("<HHHHI16s16xIII", *numbers) + bytes(40 * sections)


CUDA = build_elf(kind="relocatable", sections={".nv_fatbin": container(entry(architecture=90))})


def test_a_member_that_claims_more_sections_than_it_has_is_at_fault() -> None:
    (fault,) = read_device(archive(big_obj=_big_object(1, 3), one_o=CUDA)).device_faults
    assert (
        fault.reason
        == "a member that cannot be read: 120 bytes are requested, but this part of the file has 96"
    )
