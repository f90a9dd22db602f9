"""What ranges of a published file show, how little they take, and what is said where none are."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from binary_checks import objects
from binary_checks.declaring import find_checks
from binary_checks.errors import GatherError, PackageError, Unavailable
from binary_checks.gather.reading import find_publication, find_published
from binary_checks.model import (
    CppArchive,
    Kind,
    MalformedObject,
    Note,
    ObjectFile,
    PublishedFile,
    PublishedWheel,
    Remote,
    Source,
    UnreadObject,
    Wheel,
)
from binary_checks.objects.first_bytes import read_first_bytes
from binary_checks.packages import open_package
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.remote_files import RemotePackage

NOISE = random.Random(1).randbytes(600 << 10)


def give(remote: Remote) -> Source:
    return cast("Source", SimpleNamespace(remote=lambda: remote))


def read(remote: Remote) -> PublishedFile:
    return find_published(give(remote), objects)


def large_wheel(folder: Path, **parts: bytes) -> Path:
    library = build_elf() + NOISE
    members = {
        "demo/__init__.py": b"",
        **{f"demo/_native{n}.cpython-311-x86_64-linux-gnu.so": library for n in range(3)},
        "demo/data.bin": NOISE,
        **parts,
    }
    return build_wheel(folder, members=members, compression="stored")


def test_a_wheel_is_known_by_a_tenth_of_its_bytes(tmp_path: Path) -> None:
    path = large_wheel(tmp_path)
    remote = RemotePackage(path)
    file = read(remote)
    assert isinstance(file, PublishedWheel)
    assert file.package.header("Name") == "demo"
    assert [str(tag) for tag in file.package.tags] == ["cp311-cp311-manylinux_2_17_x86_64"]
    assert len(file.package.record or ()) == 8
    natives = [(each.kind, each.architecture) for each in file.package.objects]
    assert natives == [(Kind.SHARED, "x86_64")] * 3
    assert file.requests <= 4
    assert file.transferred < path.stat().st_size / 8
    assert sum(length for _, length in remote.opened[0].asked) == file.transferred
    assert remote.opened[0].closed
    checks = [
        each
        for each in find_checks()
        if each.enabled and len(each.facts) == 1 and issubclass(each.subjects[0], PublishedFile)
    ]
    (found,) = (found for check in checks for found in check(file))
    assert isinstance(found, Note)  # how much was read


def test_it_says_of_a_wheel_what_reading_all_of_it_says(tmp_path: Path) -> None:
    path = large_wheel(tmp_path)
    part = read(RemotePackage(path)).package
    with_all = open_package(path, objects)
    assert isinstance(part, Wheel)
    assert isinstance(with_all, Wheel)
    for field in ("name", "version", "tags", "metadata", "wheel", "record", "claims", "layout"):
        assert getattr(part, field) == getattr(with_all, field)
    for one, other in zip(part.members, with_all.members, strict=True):
        assert (one.path, one.size, one.mode) == (other.path, other.size, other.mode)
        assert one.sha256 in ("", other.sha256)
    known = [(each.path, each.kind, each.architecture) for each in part.objects]
    assert known == [(each.path, each.kind, each.architecture) for each in with_all.objects]


def test_a_file_that_changes_meanwhile_is_begun_anew_once(tmp_path: Path) -> None:
    path = large_wheel(tmp_path)
    once, twice = RemotePackage(path, changes=[1]), RemotePackage(path, changes=[1, 1])
    assert read(once).began_anew
    assert len(once.opened) == 2
    with pytest.raises(GatherError, match=r"demo-.*: it changed twice while it was read"):
        read(twice)
    assert all(each.closed for each in (*once.opened, *twice.opened))


def test_without_ranges_nothing_is_inspected_before_the_download(tmp_path: Path) -> None:
    remote = RemotePackage(large_wheel(tmp_path), ranges=False)
    with pytest.raises(Unavailable, match="before the download: the server sends no ranges"):
        read(remote)


def test_a_page_in_place_of_a_wheel_is_no_archive(tmp_path: Path) -> None:
    page = tmp_path / "demo-1.0-py3-none-any.whl"
    page.write_text("<!DOCTYPE html><title>Sign in</title>")
    with pytest.raises(PackageError, match="not a zip archive"):
        read(RemotePackage(page))


@pytest.mark.parametrize("name", ["demo-1.0-0.tar.bz2", "demo/", "demo.gz"])
def test_what_has_no_directory_to_look_into_is_not_inspected(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"BZh91AY&SY")
    with pytest.raises(Unavailable, match=r"before the download: .*has no directory"):
        read(RemotePackage(path, file_name=name))


def test_a_library_that_is_a_pointer_is_told_apart(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n"
    path = build_wheel(tmp_path, members={"demo/libx.so": pointer})
    (broken,) = read(RemotePackage(path)).package.malformed
    assert "a git-lfs pointer" in broken.reason


def test_a_long_text_is_fetched_at_once_and_one_that_is_too_long_is_not(tmp_path: Path) -> None:
    rows = [b"%d,sha256=x,1\n" % (n * 7919 % 1000003) for n in range(300_000)]
    long = build_wheel(tmp_path / "long", record=b"".join(rows[:30_000]), compression="stored")
    assert read(RemotePackage(long)).requests <= 3
    path = build_wheel(tmp_path, record=b"".join(rows), compression="stored")
    with pytest.raises(Unavailable, match=r"RECORD takes \d+ bytes; at most 4194304 are read"):
        read(RemotePackage(path))


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_the_name_of_a_conda_package_tells_its_version(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    found = find_publication(give(RemotePackage(path, file_name=f"my-demo-2.1-py311_0{suffix}")))
    assert (found.name, found.version) == ("my-demo", "2.1")


def test_a_publication_is_known_by_its_name_and_its_index(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, version="1.2+cu126")
    metadata = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.2+cu126\n\nA demo.\n"
    remote = RemotePackage(path, core_metadata=metadata, yanked="broken", ranges=False)
    found = find_publication(give(remote))
    assert (found.name, found.version) == ("demo", "1.2+cu126")
    assert found.provenance.yanked == "broken"
    assert found.metadata is not None
    assert dict(found.metadata)["Version"] == "1.2+cu126"
    assert re.fullmatch("cp311-cp311-many.*", str(found.tags[0]))


def test_of_a_conda_package_info_is_read_and_its_objects_are_not(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    members = {"lib/libdemo.so": build_elf() + NOISE}
    path = build_conda(tmp_path, members=members, version="2.1")
    file = read(RemotePackage(path))
    assert (file.package.name, file.package.version) == ("demo", "2.1")
    assert [each.name for each in file.package.claims.systems] == ["linux-64 with __glibc >=2.17"]
    assert "lib/libdemo.so" in {each.path for each in file.package.members}
    assert file.package.objects == file.package.archive_faults == file.package.ambiguities == ()
    assert [each.path for each in file.package.unread] == ["lib/libdemo.so"]
    assert file.transferred < path.stat().st_size / 2


def test_of_an_archive_of_libraries_all_is_listed_and_little_read(tmp_path: Path) -> None:
    members = {"lib/libdemo.so": build_elf(), "lib/noise.bin": NOISE, "build-hash": "abc"}
    path = build_cpp_archive(tmp_path, members=members)
    file = read(RemotePackage(path))
    assert isinstance(file.package, CppArchive)
    assert file.package.build_hash == "abc"
    assert [each.path for each in file.package.objects] == ["lib/libdemo.so"]
    noise = next(each for each in file.package.members if each.path == "lib/noise.bin")
    assert (noise.size, noise.sha256) == (len(NOISE), "")


@pytest.mark.parametrize(
    ("content", "kind", "architecture"),
    [
        (
            b"\xcf\xfa\xed\xfe" + struct.pack("<7I", 0x100000C, 0, 6, 0, 0, 0, 0),
            "Mach-O",
            "aarch64",
        ),
        (
            b"\xca\xfe\xba\xbe"
            + struct.pack(">11I", 2, 0x1000007, 3, 48, 8, 2, 0x100000C, 0, 56, 8, 2)
            + bytes(16),
            "Mach-O",
            "x86_64 aarch64",
        ),
        (build_elf()[:64], "ELF", "broken"),
        (b"\x7fELF\2\1\1" + bytes(9), "ELF", "broken"),
        (b"MZ" + bytes(58) + b"\0\x10\0\0" + bytes(9000), "PE", "unread"),
    ],
    ids=["thin", "fat", "cut off", "cut shorter", "header further on"],
)
def test_the_first_bytes_tell_or_the_reason_why_they_do_not(
    content: bytes, kind: str, architecture: str
) -> None:
    found = read_first_bytes("demo/x.so", content[:1024], len(content))
    assert {str(each.format) for each in found} == {kind}
    told = [
        each.architecture
        if isinstance(each, ObjectFile)
        else {MalformedObject: "broken", UnreadObject: "unread"}[type(each)]
        for each in found
    ]
    assert " ".join(told) == architecture
