"""A file on a server is read by few ranges, and by the same code as a file here."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, PackageError, Unavailable
from binary_checks.model import VisitRequest
from binary_checks.trees import open_part
from binary_checks.trees.file_bytes import RangedBytes
from fixtures.build_wheel import build_wheel
from fixtures.fake_reader import FakeReader
from fixtures.remote_files import RangedFile

KIB = 1 << 10


def serve(size: int) -> RangedFile:
    return RangedFile(bytes(range(256)) * (size // 256))


def test_the_end_comes_first_and_in_one_request() -> None:
    server = serve(4096 * KIB)
    ranged = RangedBytes("x.whl", server)
    assert ranged.read(server.size - 10, 10) == server.content[-10:]
    assert ranged.read(server.size - 200 * KIB, 30) == server.content[-200 * KIB :][:30]
    assert server.asked == [(server.size - 256 * KIB, 256 * KIB)]


def test_no_byte_is_fetched_twice() -> None:
    server = serve(4096 * KIB)
    ranged = RangedBytes("x.whl", server)
    ranged.read(1000, 1000)
    whole = ranged.read(0, server.size)
    assert whole == server.content
    assert ranged.transfer.size == server.size
    assert ranged.transfer.requests == len(server.asked) == 4


def test_places_near_each_other_are_one_request_and_others_are_not() -> None:
    server = serve(4096 * KIB)
    ranged = RangedBytes("x.whl", server)
    near, far = 100 + 32 * KIB, 201 + 64 * KIB
    ranged.expect([(0, 0), (0, 100), (near, near + 100), (far, far + 1)])
    assert sorted(server.asked[1:]) == [(0, near + 100), (far, 1)]
    assert ranged.read(near + 50, 50) == server.content[near + 50 : near + 100]
    assert len(server.asked) == 3


def test_what_lies_behind_the_end_is_empty_and_asks_nothing() -> None:
    server = serve(512 * KIB)
    ranged = RangedBytes("x.whl", server)
    assert ranged.read(server.size, 10) == b""
    assert len(ranged.read(server.size - 5, 10)) == 5
    assert len(server.asked) == 1


def test_a_server_that_sends_another_number_of_bytes_is_at_fault() -> None:
    server = serve(4096 * KIB)
    ranged = RangedBytes("x.whl", server)
    server.content = server.content[: 500 * KIB]
    with pytest.raises(GatherError, match=r"x\.whl: the server sent 12288 bytes instead of 16384"):
        ranged.read(488 * KIB, 10)


def test_more_than_is_worth_it_is_not_fetched() -> None:
    server = RangedFile(bytes(80 << 20))
    ranged = RangedBytes("x.whl", server)
    with pytest.raises(Unavailable, match=r"x\.whl: 73662464 bytes .*; at most 67108864 are read"):
        ranged.read(0, 70 << 20)
    assert len(server.asked) == 1


def test_of_an_archive_its_directory_and_a_few_members_are_fetched(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(600 * KIB)
    members = {f"demo/data{number}.bin": noise for number in range(4)}
    path = build_wheel(tmp_path, members=members, compression="stored")
    server = RangedFile(path.read_bytes())
    with ExitStack() as files:
        ranged = RangedBytes(path.name, server)
        tree = open_part(ranged, files)
        about = [each for each in tree.entries() if ".dist-info/" in each.name]
        wanted = VisitRequest(only=about, texts={each.name: KIB for each in about})
        visited = tree.visit(FakeReader(), wanted)
        metadata = next(each for each in visited if each.member.path.endswith("METADATA"))
        assert metadata.content is not None
        assert b"Name: demo" in metadata.content
        assert not any(each.member.faults for each in visited)
        data = [each for each in tree.entries() if each.name.endswith(".bin")]
        assert list(tree.beginnings(data, 64)) == [noise[:64]] * 4
    assert len(server.asked) <= 1 + 4
    assert ranged.transfer.size < path.stat().st_size / 5


@pytest.mark.parametrize("keeps", [0, 30, -30])
def test_a_page_or_half_an_archive_is_refused_as_a_file_would_be(
    tmp_path: Path, keeps: int
) -> None:
    path = build_wheel(tmp_path, members={"demo/x.bin": bytes(range(256)) * 400}, truncate=keeps)
    with ExitStack() as files:
        content = path.read_bytes() or b"<!DOCTYPE html><title>Not found</title>"
        tree = open_part(RangedBytes(path.name, RangedFile(content)), files)
        with pytest.raises(PackageError, match=r"demo.*: (truncated|not a zip archive)"):
            tree.entries()


def test_an_archive_without_a_directory_is_not_inspected() -> None:
    reason = r"demo-1\.0-0\.tar\.bz2: its format has no directory"
    with ExitStack() as files, pytest.raises(Unavailable, match=reason):
        open_part(RangedBytes("demo-1.0-0.tar.bz2", RangedFile(b"BZh91AY")), files)
