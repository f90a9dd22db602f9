"""Archives lie, break off and explode: each is one line or a fact, in bounded memory."""

from __future__ import annotations

import os
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binary_checks.trees.zip.directory as archive_module
from binary_checks.errors import BinaryChecksError, GatherError, PackageError
from binary_checks.model import Member, Package, UnreadObject
from binary_checks.packages import open_package, preview
from binary_checks.trees import kept_bytes
from binary_checks.trees.zip import members as inflate
from fixtures.build_wheel import Entry, build_wheel
from fixtures.fake_reader import FakeReader

MEMBERS: dict[str, bytes | str | Entry] = {
    "demo/__init__.py": "x = 1\n" * 20,
    "demo/a.so": b"\x7fELF" + bytes(100),
}
NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def read(path: Path) -> Package:
    return open_package(path, FakeReader())


def faults_of(path: Path, archive_name: str) -> list[tuple[str, ...]]:
    return [m.faults for m in read(path).members if m.archive_name == archive_name]


def with_entry(folder: Path, entry: Entry) -> Path:
    return build_wheel(folder, extra_entries=[entry])


def test_a_wheel_cut_at_any_length_is_one_line(tmp_path: Path) -> None:
    whole = build_wheel(tmp_path, members=MEMBERS).read_bytes()
    path = tmp_path / NAME
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        for look in (open_package, preview):
            with pytest.raises(PackageError) as caught:
                look(path, FakeReader())
            assert str(caught.value).startswith(f"{NAME}: ")
            assert ("truncated: " in str(caught.value)) == (length >= 4)
            assert "\n" not in str(caught.value)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_are_one_line_or_facts(tmp_path: Path, flips: list[tuple[int, int]]) -> None:
    content = bytearray(build_wheel(tmp_path / "whole", members=MEMBERS).read_bytes())
    for place, mask in flips:
        content[place % len(content)] ^= mask
    path = tmp_path / NAME
    path.write_bytes(content)
    for look in (open_package, preview):
        try:
            look(path, FakeReader())
        except BinaryChecksError as error:
            assert "\n" not in str(error)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=400))
def test_any_bytes_are_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)
    with pytest.raises(PackageError):
        read(path)


def test_a_file_that_is_no_zip_says_so(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(PackageError, match="not a zip archive"):
        read(path)


def test_a_damaged_byte_is_noticed_where_zipfile_notices_it(tmp_path: Path) -> None:
    content = build_wheel(tmp_path, members=MEMBERS).read_bytes()
    path = tmp_path / NAME
    with zipfile.ZipFile(path) as built:
        entry = built.getinfo("demo/__init__.py")
    start = entry.header_offset + 30 + len(entry.filename)
    noticed = 0
    for place in range(start, start + entry.compress_size):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        (found,) = faults_of(path, "demo/__init__.py")
        # zipfile never looks at the last code; the bits that pad the last byte mean nothing.
        assert found or not zipfile_complains(path), f"byte {place}"
        noticed += bool(found)
    assert noticed >= entry.compress_size - 1


def zipfile_complains(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        try:
            return archive.testzip() is not None
        except zlib.error:
            return True


def test_a_wrong_crc_is_a_fact_and_the_hash_is_still_known(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x", b"abc", declared_crc=1))
    (item,) = (m for m in read(built).members if m.archive_name == "demo/x")
    assert item.faults == (f"its CRC-32 is {zlib.crc32(b'abc'):08x} and the archive says 00000001",)
    assert item.sha256


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_a_member_that_inflates_to_more_is_stopped(tmp_path: Path, size: int) -> None:
    built = with_entry(tmp_path, Entry("demo/x", bytes(size), declared_size=50))
    assert faults_of(built, "demo/x") == [("it inflates to more than the 50 bytes it declares",)]


def test_a_member_that_inflates_to_less_says_so(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x", b"abcdefgh" * 50, declared_size=500))
    assert faults_of(built, "demo/x") == [("it inflates to 400 bytes and declares 500",)]


def test_an_impossible_ratio_is_not_inflated(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x", b"abc", declared_size=1 << 31))
    ((fault,),) = faults_of(built, "demo/x")
    assert fault.endswith("which is impossible")


def test_a_bomb_takes_bounded_memory(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x", bytes(200 << 20)))
    tracemalloc.start()
    try:
        (item,) = (m for m in read(built).members if m.archive_name == "demo/x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert item.faults == ()
    assert peak < 8 << 20


def test_more_bytes_than_agreed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = with_entry(tmp_path, Entry("demo/x", bytes(5000)))
    monkeypatch.setattr(archive_module, "MAXIMUM_SIZE", 4000)
    with pytest.raises(PackageError, match="at most 4000 are read"):
        read(built)


def test_more_entries_than_agreed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_wheel(tmp_path, members=MEMBERS)
    monkeypatch.setattr(archive_module, "MAXIMUM_ENTRIES", 5)
    assert len(read(built).members) == 5
    monkeypatch.setattr(archive_module, "MAXIMUM_ENTRIES", 4)
    with pytest.raises(PackageError, match="claims 5 entries"):
        read(built)


def test_an_encrypted_member_is_not_read(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x.so", b"\x7fELF", encrypted=True))
    assert faults_of(built, "demo/x.so") == [("it is encrypted",)]
    assert read(built).objects == ()


def test_local_headers_are_compared_with_the_directory(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/x", b"", local_name="demo/y"))
    assert faults_of(built, "demo/x") == [("its local header calls it 'demo/y'",)]
    content = bytearray(build_wheel(tmp_path, members=MEMBERS).read_bytes())
    struct.pack_into("<H", content, 8, 99)  # the method in the first local header
    struct.pack_into("<I", content, 22, 7)  # and its size
    (tmp_path / NAME).write_bytes(content)
    assert faults_of(tmp_path / NAME, "demo/__init__.py") == [
        (
            "its local header says compression method 99, the central directory 8",
            "its local header says size 7, the central directory 120",
        )
    ]


def test_sizes_in_zip64_fields_are_read(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as built,
        built.open("demo/x", "w", force_zip64=True) as member,
    ):
        member.write(b"abc" * 100)
    assert faults_of(path, "demo/x") == [()]


def test_other_compression_is_a_fact(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as built:
        built.writestr("demo/x", b"abc")
    assert faults_of(path, "demo/x") == [
        ("its compression method 14 is not one that installers read",)
    ]


def test_bytes_around_the_archive_are_facts(tmp_path: Path) -> None:
    content = build_wheel(tmp_path, members=MEMBERS).read_bytes()
    path = tmp_path / NAME
    path.write_bytes(b"#!/bin/sh\n" + content + b"more")
    package = read(path)
    assert package.ambiguities == (
        "10 bytes stand before the start of the archive",
        "4 bytes follow the end of the archive",
    )
    assert not any(item.faults for item in package.members)


def test_an_archive_comment_is_no_fault(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members=MEMBERS)
    with zipfile.ZipFile(path, "a") as built:
        built.comment = b"c" * 0xFFFF  # the longest that is possible
    assert read(path).ambiguities == ()


def test_entries_that_share_bytes_are_read_once(tmp_path: Path) -> None:
    content = build_wheel(tmp_path, members=MEMBERS).read_bytes()
    start = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", start + 4)
    changed = bytearray(content)
    struct.pack_into("<I", changed, second + 42, 0)  # the offset of the second entry
    (tmp_path / NAME).write_bytes(changed)
    assert faults_of(tmp_path / NAME, "demo/a.so") == [
        ("its bytes overlap those of 'demo/__init__.py'",)
    ]


def test_two_members_of_one_name_are_both_there(tmp_path: Path) -> None:
    built = build_wheel(tmp_path, members=MEMBERS, extra_entries=[Entry("demo/a.so", b"other")])
    found = [m for m in read(built).members if m.archive_name == "demo/a.so"]
    assert [item.size for item in found] == [104, 5]


def test_a_symlink_is_told_by_its_mode(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/b.so", b"a.so", mode=0o120777))
    (item,) = (m for m in read(built).members if m.archive_name == "demo/b.so")
    assert item.is_symlink
    assert not item.is_directory


def test_a_folder_is_told_by_its_name(tmp_path: Path) -> None:
    built = with_entry(tmp_path, Entry("demo/empty/", mode=0o040755))
    (item,) = (m for m in read(built).members if m.archive_name == "demo/empty/")
    assert item.is_directory
    assert item.faults == ()


def test_empty_blocks_do_not_hide_an_object(tmp_path: Path) -> None:
    # 60,000 empty stored blocks, then the object: the first bytes come late.
    payload = b"\x7fELF" + bytes(60)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    original = deflate.compress(payload) + deflate.flush()
    packed = b"\0\0\0\xff\xff" * 60_000 + original
    path = build_wheel(tmp_path, members={"demo/a.so": Entry(content=payload)})
    content = path.read_bytes()
    assert content.count(original) == 1
    grown = len(packed) - len(original)
    content = content.replace(original, packed)
    content = content.replace(
        struct.pack("<II", len(original), len(payload)), struct.pack("<II", len(packed), 64)
    )
    path.write_bytes(_shift(content, grown))
    assert preview(path, FakeReader()).formats
    package = read(path)
    assert [item.path for item in package.objects] == [package.layout.place("demo/a.so")]
    assert not any(item.faults for item in package.members)


def _shift(content: bytes, grown: int) -> bytes:
    """Move every offset behind the first member on."""
    changed = bytearray(content)
    place = content.index(b"PK\1\2")
    while (place := content.find(b"PK\1\2", place + 1)) >= 0:
        (offset,) = struct.unpack_from("<I", content, place + 42)
        struct.pack_into("<I", changed, place + 42, offset + grown)
    end = content.rindex(b"PK\5\6")
    (offset,) = struct.unpack_from("<I", content, end + 16)
    struct.pack_into("<I", changed, end + 16, offset + grown)
    return bytes(changed)


LARGE = b"\x7fELF" + bytes(range(256)) * 8000


def read_with(path: Path, reader: FakeReader) -> list[bytes]:
    package = open_package(path, reader)
    assert [item.path for item in package.objects] == [package.layout.place("demo/a.so")]
    assert package.objects[0].size == len(LARGE)
    return reader.seen[package.layout.place("demo/a.so")]


@pytest.mark.parametrize("most", [1, 1 << 30])
def test_a_reader_gets_any_bytes_of_a_large_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(kept_bytes, "_IN_MEMORY", most)
    built = build_wheel(tmp_path, members={"demo/a.so": LARGE})
    reader = FakeReader(
        asked=((0, 5000), (1_200_000, 300_000), (2_048_000, 4), (700, 0)),
    )
    assert read_with(built, reader) == [
        LARGE[:5000],
        LARGE[1_200_000:1_500_000],
        LARGE[2_048_000:2_048_004],
        b"",
    ]


def test_a_reader_that_asks_beyond_the_end_is_told(tmp_path: Path) -> None:
    built = build_wheel(tmp_path, members={"demo/a.so": LARGE})
    package = open_package(built, FakeReader(asked=((len(LARGE) - 1, 2),)))
    assert [item.offset for item in package.malformed] == [len(LARGE) - 1]


@pytest.mark.parametrize("content", [LARGE, b"\x7fELF" + bytes(9000)])
def test_an_object_that_does_not_come_out_whole_is_unread(tmp_path: Path, content: bytes) -> None:
    lie = Entry("demo/x.so", content, declared_size=len(content) + 1, local_name="demo/y.so")
    package = read(with_entry(tmp_path, lie))
    (unread,) = package.unread
    assert isinstance(unread, UnreadObject)
    assert unread.path == "lib/python3.11/site-packages/demo/x.so"
    assert unread.reason.startswith("it cannot be extracted: it inflates to ")


def test_without_isal_the_facts_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Entry("demo/x", bytes(5000), declared_size=50)
    members: dict[str, bytes | str | Entry] = {**MEMBERS, "demo/large.so": LARGE}
    built = build_wheel(tmp_path, members=members, extra_entries=[broken])
    before = read(built)
    monkeypatch.setattr(inflate, "_library", zlib)
    assert read(built) == before


def test_one_thread_reads_what_several_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members: dict[str, bytes | str | Entry] = {
        f"demo/{number}": bytes([number]) * 3_000_000 for number in range(8)
    }
    built = build_wheel(tmp_path, members=members)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    threaded = read(built)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    alone = read(built)
    assert threaded == alone
    assert [Path(m.path).name for m in alone.members][:8] == [str(n) for n in range(8)]


def test_without_pread_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_wheel(tmp_path, members=MEMBERS)
    before: tuple[Member, ...] = read(built).members
    monkeypatch.delattr(os, "pread", raising=False)
    assert read(built).members == before


def test_a_full_disk_is_nobodys_fault_but_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, _: object) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    built = build_wheel(tmp_path, members={"demo/a.so": LARGE})
    monkeypatch.setattr(kept_bytes, "_IN_MEMORY", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(GatherError, match=r"demo/a\.so .* temporary file: No space left"):
        open_package(built, FakeReader())
