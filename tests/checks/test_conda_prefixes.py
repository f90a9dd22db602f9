"""Prefixes of the build are judged in packages that are written byte by byte, and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects
from binary_checks.checks.conda import (
    placeholder_without_room,
    short_placeholder,
    text_placeholder_in_binary,
    unlisted_placeholder,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import CondaPackage, Level, Problem
from binary_checks.packages import open_package
from fixtures.build_conda import build_conda
from fixtures.build_elf import build_elf
from fixtures.values import only

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

PREFIX = ("/home/conda/x/_h_env" + "_placehold" * 30)[:255]
TEXT = f"prefix={PREFIX}\nlibdir={PREFIX}/lib\n"
DATA = b"\0\1" + f"{PREFIX}/share/x".encode() + b"\0"


def package(folder: Path, path: str, content: Any, mode: str = "", **changes: Any) -> CondaPackage:
    rows = {path: (mode, changes.pop("prefix", PREFIX))} if mode else {}
    made = build_conda(folder, members={path: content}, placeholders=rows, **changes)
    read = open_package(made, objects)
    assert isinstance(read, CondaPackage)
    return read


def problems(found: Any) -> list[tuple[str, Level]]:
    items = [item if isinstance(item, Problem) else Problem(sentence=str(item)) for item in found]
    return [(item.path, item.level) for item in items]


@pytest.mark.parametrize(
    ("length", "level"), [(79, Level.ERROR), (80, Level.WARNING), (254, Level.WARNING)]
)
def test_a_short_placeholder_in_a_binary_file_fires(
    tmp_path: Path, length: int, level: Level
) -> None:
    content = b"\0" + PREFIX[:length].encode() + b"/x\0"
    item = package(tmp_path, "lib/x.bin", content, "binary", prefix=PREFIX[:length])
    assert problems(short_placeholder(item)) == [("lib/x.bin", level)]


def test_short_placeholder_is_quiet_on_255_bytes_and_on_text(tmp_path: Path) -> None:
    assert problems(short_placeholder(package(tmp_path, "lib/x.bin", DATA, "binary"))) == []
    short = package(tmp_path, "lib/x.pc", "prefix=/opt/x\n", "text", prefix="/opt/x")
    assert problems(short_placeholder(short)) == []
    with pytest.raises(NotApplicable, match="no file of it has a placeholder"):
        list(short_placeholder(package(tmp_path, "lib/x.txt", "x")))


def test_places_without_room_are_counted(tmp_path: Path) -> None:
    bad, good = PREFIX.encode() + b"/x\1\2\3\0", PREFIX.encode() + b"/y\0"
    for content, words in (
        (bad, "the only occurrence of "),
        (bad + good, "1 of 2 occurrences of "),
    ):
        folder = tmp_path / words[:3]
        folder.mkdir()
        problem = only(
            Problem,
            placeholder_without_room(package(folder, "lib/x.bin", b"\0" + content, "binary")),
        )
        assert problem.sentence.startswith(words)


@pytest.mark.parametrize("behind", [b"", b"/x\1\2\3\0"])
def test_placeholder_without_room_fires_where_no_nul_ends_the_text(
    tmp_path: Path, behind: bytes
) -> None:
    item = package(tmp_path, "lib/x.bin", b"\0" + PREFIX.encode() + behind, "binary")
    assert problems(placeholder_without_room(item)) == [("lib/x.bin", Level.ERROR)]
    of_c = package(tmp_path, "lib/x.bin", DATA, "binary")
    assert problems(placeholder_without_room(of_c)) == []


OBJECT = build_elf(runpath=f"{PREFIX}/lib")


@pytest.mark.parametrize(
    ("path", "content", "mode", "found"),
    [
        ("lib/x.so", OBJECT, "text", [("lib/x.so", Level.ERROR)]),
        ("lib/x.bin", DATA, "text", [("lib/x.bin", Level.WARNING)]),
        ("lib/x.pc", TEXT, "text", []),
        ("lib/x.so", OBJECT, "binary", []),
    ],
)
def test_text_placeholder_in_binary_data_fires(
    tmp_path: Path, path: str, content: Any, mode: str, found: list[tuple[str, Level]]
) -> None:
    assert problems(text_placeholder_in_binary(package(tmp_path, path, content, mode))) == found


@pytest.mark.parametrize(
    ("content", "level"),
    [
        (TEXT, Level.WARNING),
        (DATA, Level.WARNING),
        (f"#!{PREFIX}/bin/python\nprint()\n", Level.ERROR),
    ],
)
def test_unlisted_placeholder_fires(tmp_path: Path, content: Any, level: Level) -> None:
    item = package(tmp_path, "bin/x", content)
    assert problems(unlisted_placeholder(item)) == [("bin/x", level)]


def test_a_long_path_is_shown_by_its_beginning_and_its_end(tmp_path: Path) -> None:
    found = only(Problem, unlisted_placeholder(package(tmp_path, "bin/x", f"{PREFIX}/lib\n")))
    assert f"has the path {PREFIX[:38]}...{f'{PREFIX}/lib'[-59:]}, which" in found.sentence
    several = only(Problem, unlisted_placeholder(package(tmp_path, "bin/x", TEXT)))
    assert several.sentence.startswith("has 2 paths as ")


def test_unlisted_placeholder_is_quiet_on_what_is_listed_on_bytecode_and_for_windows(
    tmp_path: Path,
) -> None:
    assert problems(unlisted_placeholder(package(tmp_path, "bin/x", TEXT, "text"))) == []
    assert problems(unlisted_placeholder(package(tmp_path, "lib/x.pyc", DATA))) == []
    item = package(tmp_path, "Library/bin/x.bin", DATA, subdir="win-64")
    assert problems(unlisted_placeholder(item)) == []
