"""One file must not be two archives: what tools read differently is an ambiguity."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks.checks.archive import ambiguous_archive, unreadable_member
from binary_checks.errors import PackageError
from binary_checks.model import Problem, Wheel
from binary_checks.packages import open_package
from fixtures.build_wheel import build_wheel
from fixtures.fake_reader import FakeReader
from fixtures.fuzz.zip_parts import LAYOUTS, SIGNATURES, Parts, length_of, pack, take_apart, unpack

NAME = "demo-1.0-py3-none-any.whl"
ELSEWHERE = {"here": 0xFFFF, "count": 0xFFFF, "directory size": 2**32 - 1, "directory": 2**32 - 1}
"""An end that leaves all to the ZIP64 end."""
GOOD, EVIL = b"good = 1\n", b"evil = 666\n"


def build(folder: Path, code: bytes) -> bytes:
    members = {"demo/__init__.py": code}
    return build_wheel(
        folder, tags=("py3-none-any",), members=members, compression="stored"
    ).read_bytes()


@pytest.fixture
def good(tmp_path: Path) -> Parts:
    return take_apart(build(tmp_path, GOOD))


@pytest.fixture
def evil(tmp_path: Path) -> Parts:
    return take_apart(build(tmp_path / "evil", EVIL))


def read(folder: Path, content: bytes) -> Wheel:
    path = folder / NAME
    path.write_bytes(content)
    package = open_package(path, FakeReader())
    assert isinstance(package, Wheel)
    return package


def problems(folder: Path, content: bytes) -> list[str]:
    package = read(folder, content)
    found = [*ambiguous_archive(package), *unreadable_member(package)]
    return [each.sentence for each in found if isinstance(each, Problem)]


def code_for_pip(content: bytes) -> bytes:
    """What zipfile reads, and so pip."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read("demo/__init__.py")


def test_a_sound_archive_is_not_ambiguous(tmp_path: Path, good: Parts) -> None:
    assert problems(tmp_path, good.write()) == []
    good.comment = "signed with caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode()
    assert problems(tmp_path, good.write()) == []


def test_a_comment_that_holds_another_archive(tmp_path: Path, good: Parts, evil: Parts) -> None:
    place = len(good.write())
    evil.prefix, evil.counted = bytes(place), True
    # The comment of the second end is longer than what is there, which zipfile does not mind.
    evil.end = {"comment length": 1}
    good.comment = evil.write()[place:]
    attack = good.write()
    assert code_for_pip(attack) == EVIL
    assert problems(tmp_path, attack) == [
        f"{place} bytes stand before its first member",
        "0 bytes follow its end, which claims a comment of 1: zipfile accepts it, uv refuses it",
    ]


def test_a_comment_that_holds_a_whole_archive(tmp_path: Path, good: Parts, evil: Parts) -> None:
    place = len(good.write())
    evil.prefix = bytes(place)
    good.comment = evil.write()[place:]
    attack = good.write()
    assert code_for_pip(attack) == EVIL
    assert problems(tmp_path, attack) == [f"{place} bytes stand before its first member"]


def test_an_end_in_the_last_22_bytes(tmp_path: Path, good: Parts) -> None:
    good.comment = b"PK\5\6 in a comment"
    attack = good.write()
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(attack))
    place = len(attack) - len(good.comment)
    assert problems(tmp_path, attack) == [
        "its comment may hide records of another archive (byte 0x05)",
        "it has 2 end-of-central-directory records"
        f" (at bytes {place - length_of('end'):#x}, {place:#x})",
    ]


def test_an_end_in_the_comment_of_a_member(tmp_path: Path, good: Parts) -> None:
    good.members[0].comment = pack("end", dict.fromkeys(LAYOUTS["end"], 0)) * 4
    ambiguity, fault = problems(tmp_path, good.write())
    assert ambiguity.startswith("it has 5 end-of-central-directory records (at bytes 0x")
    assert ambiguity.count("0x") == 4
    assert fault == "its comment may hide records of another archive (byte 0x05)"


def test_an_end_among_the_bytes_of_the_last_member_is_its_own_business(tmp_path: Path) -> None:
    nested = build(tmp_path / "nested", EVIL)
    members = {"demo/__init__.py": GOOD, "demo/nested.zip": nested}
    wheel = build_wheel(tmp_path, members=members, compression="stored", record=nested)
    content = wheel.read_bytes()
    assert problems(tmp_path, content) == []
    assert code_for_pip(content) == GOOD


def test_sound_zip64_records(tmp_path: Path, good: Parts) -> None:
    good.end64, good.locator = {}, {}
    assert problems(tmp_path, good.write()) == []
    good.end = ELSEWHERE
    assert problems(tmp_path, good.write()) == []
    assert code_for_pip(good.write()) == GOOD
    for empty in (Parts(members=[]), Parts(members=[], end64={}, locator={})):
        with pytest.raises(PackageError, match=r"it has no \*\.dist-info folder"):
            read(tmp_path, empty.write())


def test_a_locator_that_leads_to_another_archive(tmp_path: Path, good: Parts, evil: Parts) -> None:
    """uv follows the locator, past 4,096 zeros, to an archive of which pip knows nothing."""
    start = unpack("end", good.write(), len(good.write()) - length_of("end"))["directory"]
    evil.prefix, evil.end64 = bytes(start + 4096), {}
    hidden = evil.write()[start : -length_of("end")]
    place = start + len(hidden) - length_of("end64")
    good.before_directory, good.end64, good.locator = hidden, {}, {"place": place}
    # The hidden ZIP64 end claims all bytes up to the locator, as uv demands.
    span = good.write().index(SIGNATURES["locator"]) - place
    good.before_directory = hidden[: -length_of("end64")] + pack(
        "end64", {**unpack("end64", hidden, place - start), "length": span - 12}
    )
    good.end = ELSEWHERE
    attack = good.write()
    assert code_for_pip(attack) == GOOD
    assert problems(tmp_path, attack) == [
        f"its ZIP64 locator says that its ZIP64 end record is at byte {place:#x}, but it is at"
        f" {attack.rindex(SIGNATURES['end64']):#x}",
        f"{len(hidden)} bytes after its data belong to no member",
    ]


def change(part: str, **values: int) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        parts.end64, parts.locator = {}, {}
        setattr(parts, part, {name.replace("_", " "): value for name, value in values.items()})

    return apply


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            change("end64", length=45),
            "its ZIP64 end record states a length of 57 bytes, but has 56",
        ),
        (change("end64", disk=1), "its ZIP64 end record says that the archive spans several files"),
        (
            change("locator", disks=2),
            "its ZIP64 end record says that the archive spans several files",
        ),
        (
            change("end", count=2),
            "its end record and its ZIP64 end record disagree on where the directory is",
        ),
        (
            change("end", disk=1),
            "its end record and its ZIP64 end record disagree on where the directory is",
        ),
    ],
)
def test_zip64_records_that_contradict_each_other(
    tmp_path: Path, good: Parts, damage: Callable[[Parts], None], said: str
) -> None:
    damage(good)
    assert said in problems(tmp_path, good.write())


def test_a_zip64_end_that_does_not_stand_before_its_locator(tmp_path: Path, good: Parts) -> None:
    good.end64, good.before_locator, good.locator = {}, b"data", {}
    with pytest.raises(PackageError, match="does not stand directly before its locator"):
        read(tmp_path, good.write())
