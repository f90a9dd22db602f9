"""What pip or uv refuse in an archive, or read differently, is a fault of the member."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks.checks.archive import ambiguous_archive, unreadable_member
from binary_checks.model import Problem, Wheel
from binary_checks.packages import open_package
from fixtures.build_wheel import Entry, build_wheel
from fixtures.fake_reader import FakeReader
from fixtures.fuzz.zip_parts import take_apart

LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"
VERSION, FLAGS, DISK = {LOCAL: 4, CENTRAL: 6}, {LOCAL: 6, CENTRAL: 8}, 34


def patched(path: Path, signature: bytes, at: int, value: int) -> Path:
    """Another 16-bit value in the first header of that kind."""
    content = bytearray(path.read_bytes())
    struct.pack_into("<H", content, content.index(signature) + at, value)
    path.write_bytes(content)
    return path


def read(path: Path) -> Wheel:
    package = open_package(path, FakeReader())
    assert isinstance(package, Wheel)
    return package


def faults(path: Path) -> str:
    wheel = read(path)
    found = [*ambiguous_archive(wheel), *unreadable_member(wheel)]
    assert all(isinstance(each, Problem) for each in found)
    return "; ".join(each.sentence for each in found if isinstance(each, Problem))


@pytest.mark.parametrize("signature", [LOCAL, CENTRAL])
@pytest.mark.parametrize(
    ("at", "value", "fault"),
    [
        (VERSION, 64, "it needs version 6.4 of the format"),
        (VERSION, 0x341, "it needs version 6.5 of the format"),  # the upper byte is a system
        (VERSION, 63, ""),
        (FLAGS, 0x20, "it is compressed patched data (bit 5 of its flags)"),
        (FLAGS, 0x40, "it asks for strong encryption (bit 6 of its flags)"),
        (FLAGS, 0x2000, "its headers are masked (bit 13 of its flags)"),
        (FLAGS, 0x8, "disagree on a data descriptor"),
        (FLAGS, 0x6, ""),  # how hard it was compressed
    ],
)
def test_versions_and_flags(
    tmp_path: Path, signature: bytes, at: dict[bytes, int], value: int, fault: str
) -> None:
    found = faults(patched(build_wheel(tmp_path), signature, at[signature], value))
    assert fault in found if fault else found == ""


def test_parts_of_several_files(tmp_path: Path) -> None:
    path = patched(build_wheel(tmp_path), CENTRAL, DISK, 2)
    assert "it lies in part 3 of an archive that spans several files" in faults(path)
    counted = build_wheel(tmp_path, name="other")
    assert "states 1 members in this file and 3 in total" in faults(
        patched(counted, b"PK\5\6", 8, 1)
    )


def with_extra(folder: Path, extra: Callable[[bytes], bytes]) -> Path:
    """A wheel whose members have an extra field in both headers, made of their names."""
    source = build_wheel(folder / "plain")
    path = folder / source.name
    with zipfile.ZipFile(source) as plain, zipfile.ZipFile(path, "w") as changed:
        for info in plain.infolist():
            content = plain.read(info)
            info.extra = extra(info.filename.encode())
            changed.writestr(info, content)
    return path


def unicode_path(name: bytes, *, stands_for: bytes) -> bytes:
    return struct.pack("<HHBI", 0x7075, 5 + len(name), 1, zlib.crc32(stands_for)) + name


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        (
            lambda _: struct.pack("<HH4s", 0x5455, 99, b""),
            "0x5455 is longer than all its extra fields together",
        ),
        (lambda name: unicode_path(b"x.py", stands_for=name), "its extra field calls it 'x.py'"),
        (lambda name: unicode_path(name, stands_for=name), ""),
        (lambda _: unicode_path(b"x.py", stands_for=b"old"), ""),  # of a name it no longer has
        (lambda _: struct.pack("<HHB4s", 0x5455, 5, 1, bytes(4)), ""),
        (lambda _: bytes(3), ""),  # zipalign
        (lambda _: struct.pack("<HH200s", 0xCAFE, 200, b""), ""),  # longer than most headers
    ],
)
def test_extra_fields(tmp_path: Path, extra: Callable[[bytes], bytes], fault: str) -> None:
    found = faults(with_extra(tmp_path, extra))
    assert fault in found if fault else found == ""


DESCRIBED = {"demo/a.txt": Entry("demo/a.txt", b"text " * 9, data_descriptor=True)}


def test_a_data_descriptor(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members=DESCRIBED)
    assert faults(path) == ""
    content = path.read_bytes()
    start = content.index(b"PK\7\x08")
    unsigned = content[:start] + content[start + 4 :]
    assert content[start + 4 : start + 16] in unsigned
    path.write_bytes(content[: start + 4] + b"\xff" + content[start + 5 :])
    assert "no data descriptor with its CRC-32 and sizes follows" in faults(path)


@pytest.mark.parametrize(
    ("extra", "descriptor", "fault"),
    [
        (b"", "<4sIII", ""),
        (b"", "<III", ""),
        (b"", "<4sIQQ", "no data descriptor"),  # uv reads 16 bytes of it
        (struct.pack("<HH2Q", 1, 16, 0, 0), "<4sIQQ", ""),
        (struct.pack("<HH2Q", 1, 16, 0, 0), "<4sIII", "no data descriptor"),
        (b"", "", "no data descriptor"),
    ],
)
def test_the_local_header_says_how_long_a_descriptor_is(
    tmp_path: Path, extra: bytes, descriptor: str, fault: str
) -> None:
    path = build_wheel(tmp_path, members=DESCRIBED)
    parts = take_apart(path.read_bytes())
    member = parts.members[0]
    sums = [member.central[name] for name in ("crc", "packed", "size")]
    signed = [b"PK\7\x08", *sums] if "s" in descriptor else sums
    member.following = struct.pack(descriptor, *signed) if descriptor else b""
    member.local_extra = extra
    path.write_bytes(parts.write())
    found = faults(path)
    assert fault in found if fault else found == ""


FULL = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        (0, "its ZIP64 field is missing, or has too many or too few numbers"),
        (1, ""),
        (2, "its ZIP64 field is missing, or has too many or too few numbers"),
    ],
)
def test_a_zip64_field_has_as_many_numbers_as_it_needs(
    tmp_path: Path, numbers: int, fault: str
) -> None:
    path = build_wheel(tmp_path, members={"demo/a.txt": b"text"})
    parts = take_apart(path.read_bytes())
    member = parts.members[0]
    size = member.central["size"]
    member.central["size"] = FULL
    field = struct.pack(f"<{numbers}Q", *[size] * numbers)
    field = struct.pack("<4H", 0xCAFE, 0, 1, len(field)) + field + bytes(2)
    member.extra = field if numbers else b""
    path.write_bytes(parts.write())
    found = faults(path)
    assert fault in found if fault else found == ""


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        (Entry("demo/x/", b"x"), 1),
        (Entry("demo/x/", data_descriptor=True), 2),  # deflated; uv refuses it as it streams
        (Entry("demo/x/"), 0),
    ],
)
def test_a_folder_without_content(tmp_path: Path, entry: Entry, size: int) -> None:
    found = faults(build_wheel(tmp_path, extra_entries=[entry]))
    assert (f"it is the entry of a folder, and claims {size} bytes" in found) == bool(size)


def between(path: Path, hidden: bytes) -> Path:
    """The wheel with bytes between its last member and its directory."""
    content = path.read_bytes()
    start = content.index(CENTRAL)
    end = bytearray(content[start:])
    struct.pack_into("<I", end, len(end) - 6, start + len(hidden))
    path.write_bytes(content[:start] + hidden + end)
    return path


def test_bytes_of_no_member(tmp_path: Path) -> None:
    hidden = LOCAL + bytes(26) + b"evil"
    path = between(build_wheel(tmp_path), hidden)
    assert f"{len(hidden)} bytes after its data belong to no member" in faults(path)
    aligned = between(build_wheel(tmp_path, name="aligned"), bytes(5000))
    assert "5000 bytes after its data belong to no member" in faults(aligned)


def test_data_that_reach_into_the_next_member(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo/a.txt": b"text"}, compression="stored")
    patched(path, LOCAL, 28, 3)  # the length of the extra field
    assert "its last 3 bytes overlap the data after it" in faults(path)


def test_bytes_before_the_first_member(tmp_path: Path) -> None:
    content = build_wheel(tmp_path).read_bytes()
    path = tmp_path / "moved" / build_wheel(tmp_path).name
    path.parent.mkdir()
    changed = bytearray(b"#!sh" + content)
    at = 0
    while (at := changed.find(CENTRAL, at + 1)) > 0:
        (offset,) = struct.unpack_from("<I", changed, at + 42)
        struct.pack_into("<I", changed, at + 42, offset + 4)
    (offset,) = struct.unpack_from("<I", changed, len(changed) - 6)
    struct.pack_into("<I", changed, len(changed) - 6, offset + 4)
    path.write_bytes(changed)
    assert "4 bytes stand before its first member" in faults(path)


def test_names_that_tools_read_differently(tmp_path: Path) -> None:
    named = build_wheel(tmp_path, members={"demo/ä.txt": b"x"})
    assert faults(named) == ""
    content = named.read_bytes().replace(b"\x00\x08\x08\x00", b"\x00\x00\x08\x00")
    named.write_bytes(content)
    assert "its name is neither ASCII nor marked as UTF-8" in faults(named)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("demo/tab\tname.py", "its name holds the invisible character U+0009, which uv refuses"),
        ("demo/soft\N{SOFT HYPHEN}.py", "its name holds the invisible character U+00AD"),
        ("demo/no\N{NO-BREAK SPACE}break.py", ""),
        ("", "it has no name"),
    ],
)
def test_characters_of_a_name(tmp_path: Path, name: str, fault: str) -> None:
    found = faults(build_wheel(tmp_path, extra_entries=[Entry(name, b"x")]))
    assert fault in found if fault else found == ""


def test_local_flags_that_read_the_name_otherwise(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo/\N{GREEK SMALL LETTER PI}.py": b"x"})
    parts = take_apart(path.read_bytes())
    parts.members[0].local["flags"] = 0
    path.write_bytes(parts.write())
    assert "disagree on whether its name is UTF-8" in faults(path)


def test_an_extra_field_that_is_there_twice(tmp_path: Path) -> None:
    found = faults(with_extra(tmp_path, lambda _: struct.pack("<HH", 0xCAFE, 0) * 2))
    assert "it has the extra field 0xcafe twice in the central directory" in found
    assert "it has the extra field 0xcafe twice in its local header" in found
