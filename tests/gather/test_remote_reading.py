"""What ranges of a published file show, how little they take, and what is said where none are."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.errors import GatherError, PackageError, Unavailable
from binary_checks.gather.remote_reading import read_publication, read_published
from binary_checks.model import Kind, Wheel
from binary_checks.model.published import PublishedWheel
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.remote_files import RemotePackage

NOISE = random.Random(1).randbytes(600 << 10)


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
    file = read_published(remote, objects)
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


def test_it_says_of_a_wheel_what_reading_all_of_it_says(tmp_path: Path) -> None:
    path = large_wheel(tmp_path)
    part = read_published(RemotePackage(path), objects).package
    with_all = objects_and_texts(path)
    assert isinstance(part, Wheel)
    for field in ("name", "version", "tags", "metadata", "wheel", "record", "claims", "layout"):
        assert getattr(part, field) == getattr(with_all, field)
    for one, other in zip(part.members, with_all.members, strict=True):
        assert (one.path, one.size, one.mode) == (other.path, other.size, other.mode)
        assert one.sha256 in ("", other.sha256)
    known = [(each.path, each.kind, each.architecture) for each in part.objects]
    assert known == [(each.path, each.kind, each.architecture) for each in with_all.objects]


def objects_and_texts(path: Path) -> Wheel:
    from binary_checks.packages import open_package

    package = open_package(path, objects)
    assert isinstance(package, Wheel)
    return package


def test_a_file_that_changes_meanwhile_is_begun_anew_once(tmp_path: Path) -> None:
    remote = RemotePackage(large_wheel(tmp_path), changes=[1])
    file = read_published(remote, objects)
    assert file.began_anew
    assert len(remote.opened) == 2
    assert all(each.closed for each in remote.opened)


def test_a_file_that_changes_again_is_refused(tmp_path: Path) -> None:
    remote = RemotePackage(large_wheel(tmp_path), changes=[1, 1])
    with pytest.raises(GatherError, match=r"demo-.*: it changed twice while it was read"):
        read_published(remote, objects)
    assert all(each.closed for each in remote.opened)


def test_without_ranges_nothing_is_inspected_before_the_download(tmp_path: Path) -> None:
    remote = RemotePackage(large_wheel(tmp_path), ranges=False)
    with pytest.raises(Unavailable, match="before the download: the server sends no ranges"):
        read_published(remote, objects)


def test_a_page_in_place_of_a_wheel_is_no_archive(tmp_path: Path) -> None:
    page = tmp_path / "demo-1.0-py3-none-any.whl"
    page.write_text("<!DOCTYPE html><title>Sign in</title>")
    with pytest.raises(PackageError, match="not a zip archive"):
        read_published(RemotePackage(page), objects)


def test_a_tar_has_no_directory_to_look_into(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-0.tar.bz2"
    path.write_bytes(b"BZh91AY&SY")
    with pytest.raises(Unavailable, match=r"before the download: .*has no directory"):
        read_published(RemotePackage(path), objects)


def test_a_library_that_is_a_pointer_is_told_apart(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n"
    path = build_wheel(tmp_path, members={"demo/libx.so": pointer})
    (broken,) = read_published(RemotePackage(path), objects).package.malformed
    assert "a git-lfs pointer" in broken.reason


def test_a_text_too_long_to_be_fetched_is_said(tmp_path: Path) -> None:
    record = b"".join(b"%d,sha256=x,1\n" % (n * 7919 % 1000003) for n in range(300_000))
    path = build_wheel(tmp_path, record=record, compression="stored")
    with pytest.raises(Unavailable, match=r"RECORD takes \d+ bytes, more than 4194304 are not"):
        read_published(RemotePackage(path), objects)


def test_a_publication_is_known_by_its_name_and_its_index(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, version="1.2+cu126")
    metadata = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.2+cu126\n\nA demo.\n"
    remote = RemotePackage(path, core_metadata=metadata, yanked="broken", ranges=False)
    found = read_publication(remote)
    assert (found.name, found.version) == ("demo", "1.2+cu126")
    assert found.provenance.yanked == "broken"
    assert found.metadata is not None
    assert dict(found.metadata)["Version"] == "1.2+cu126"
    assert re.fullmatch("cp311-cp311-many.*", str(found.tags[0]))
