"""Paths of the build machine are found in the bytes of a package, however they stream by."""

from __future__ import annotations

import pytest

from binary_checks.model import BuildPath
from binary_checks.packages.conda import BuildPathScan

PREFIX = "/home/conda/feedstock_root/build_artifacts/x_1/_h_env_placehold_placehold_plac"
BINARY = b"\x7fELF\0\0"


def scan(content: bytes, *, name: str = "lib/x", step: int = 1 << 20) -> list[BuildPath]:
    found = BuildPathScan()
    see = found.watch(name)
    assert see is not None
    see(content[:256])  # trees join the first pieces
    for start in range(256, len(content), step):
        see(content[start : start + step])
    return list(found.results())


@pytest.mark.parametrize("step", [1, 7, 64, 1 << 20])
def test_a_placeholder_is_found_wherever_the_pieces_end(step: int) -> None:
    content = bytes(1000) + PREFIX.encode() + b"/lib/x.so\0" + bytes(1000)
    (found,) = scan(BINARY + content + content, step=step)
    assert (found.prefix, found.text) == (PREFIX, f"{PREFIX}/lib/x.so")
    assert (found.count, found.cramped, found.binary) == (2, 0, True)


@pytest.mark.parametrize("step", [5, 1 << 20])
def test_several_in_one_text_have_room_up_to_its_nul(step: int) -> None:
    text = f"{PREFIX}/lib:{PREFIX}/lib64 --prefix={PREFIX}\n".encode()
    (found,) = scan(BINARY + text + b"\0", step=step)
    assert (found.count, found.cramped) == (3, 0)


@pytest.mark.parametrize("step", [5, 1 << 20])
@pytest.mark.parametrize("behind", [b"", b"\x01\x02\0", b"/x\x03\0"])
def test_without_a_nul_behind_text_there_is_no_room(step: int, behind: bytes) -> None:
    (found,) = scan(BINARY + PREFIX.encode() + behind, step=step)
    assert (found.count, found.cramped) == (1, 1)


def test_in_text_there_is_always_room() -> None:
    (found,) = scan(f"prefix={PREFIX}\nlibdir={PREFIX}/lib\n".encode())
    assert (found.prefix, found.count, found.cramped, found.binary) == (PREFIX, 2, 0, False)


@pytest.mark.parametrize("step", [3, 1 << 20])
def test_the_interpreter_of_a_script_is_told_from_its_text(step: int) -> None:
    (script,) = scan(f"#!{PREFIX}/bin/python\nprint()\n".encode(), step=step)
    (text,) = scan(f"#!/bin/sh\nexec {PREFIX}/bin/x\n".encode(), step=step)
    assert (script.shebang, text.shebang) == (True, False)


@pytest.mark.parametrize("text", ["a placeholder", "x = '_placehold_placehold' * 9"])
def test_a_word_is_no_path(text: str) -> None:
    assert scan(text.encode()) == []


@pytest.mark.parametrize("step", [5, 1 << 20])
@pytest.mark.parametrize("end", "})%")
def test_a_path_after_a_variable_is_none(step: int, end: str) -> None:
    assert scan(f"{'-' * 250} {end}{PREFIX}/x\n".encode(), step=step) == []
    assert scan(f"{end}{PREFIX}/x\n".encode(), step=step) == []


def test_bytecode_and_metadata_are_not_watched() -> None:
    assert BuildPathScan().watch("lib/x.pyc") is None
    assert BuildPathScan().watch("info/recipe/meta.yaml") is None


def test_a_file_full_of_placeholders_takes_no_longer_than_its_size() -> None:
    found = scan(BINARY + f"{PREFIX}/x ".encode() * 20_000 + b"\0", step=1 << 16)
    assert [each.count for each in found] == [20_000]
