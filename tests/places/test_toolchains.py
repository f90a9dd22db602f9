"""Compilers and build tools of the host are found as users find them, and shown to a sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binary_checks.places import unpacked
from binary_checks.places.unpacked import find_files_of, find_named, find_programs


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing beside this Python."""
    monkeypatch.setattr(unpacked, "OWN_FOLDER", tmp_path / "own" / "bin")


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def path_of(*folders: Path) -> dict[str, str]:
    return {"PATH": ":".join(map(str, folders))}


@pytest.mark.skipif(os.name != "posix", reason="programs have other names there")
def test_programs_are_found_in_the_order_of_their_names_then_of_path(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a/g++"), put(tmp_path / "b/g++")
    preferred = put(tmp_path / "b/c++")
    beside_this_python = put(tmp_path / "own/bin/g++")
    (tmp_path / "again").symlink_to(tmp_path / "a")  # one folder under two names is one
    folders = path_of(tmp_path / "a", tmp_path / "again", tmp_path / "b")
    found = find_programs(("c++", "g++"), folders)
    assert found == (preferred, first, second, beside_this_python)


@pytest.mark.parametrize("folder", ["shims", "relative"])
def test_what_calls_others_or_depends_on_the_folder_is_left_out(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / folder / "cmake")
    written = folder if folder == "relative" else str(tmp_path / folder)
    assert find_programs(("cmake",), {"PATH": written}) == ()


def test_what_cannot_be_run_is_no_program(tmp_path: Path) -> None:
    put(tmp_path / "a/cmake").chmod(0o644)
    (tmp_path / "b/cmake").mkdir(parents=True)
    assert find_programs(("cmake",), path_of(tmp_path / "a", tmp_path / "b")) == ()


@pytest.mark.skipif(os.name != "posix", reason="programs have other names there")
@pytest.mark.parametrize("value", ["clang++", "{}/bin/clang++"])
def test_a_variable_names_a_compiler(value: str, tmp_path: Path) -> None:
    program = put(tmp_path / "bin/clang++")
    environ = {**path_of(tmp_path / "bin"), "CXX": value.format(tmp_path)}
    assert find_named("CXX", environ) == (program,)


@pytest.mark.parametrize("value", ["", "ccache g++", "'", "/nonesuch/g++"])
def test_a_variable_that_names_no_program_counts_for_nothing(value: str, tmp_path: Path) -> None:
    assert find_named("CXX", {**path_of(tmp_path), "CXX": value}) == ()


@pytest.mark.skipif(os.name != "posix", reason="there is no sandbox")
def test_of_a_programs_prefix_no_more_is_shown_than_it_may_read(tmp_path: Path) -> None:
    program = put(tmp_path / "tools/bin/g++")
    for name in ("lib/gcc", "x86_64-conda-linux-gnu", ".ssh", "share/cmake-3.30", "share/keys"):
        (tmp_path / "tools" / name).mkdir(parents=True)
    shown = {str(each.relative_to(tmp_path / "tools")) for each in find_files_of(program)}
    assert shown == {"bin/g++", "bin", "lib", "share/cmake-3.30", "x86_64-conda-linux-gnu"}


def test_of_a_folder_that_is_no_prefix_the_program_alone_is_shown(tmp_path: Path) -> None:
    program = put(tmp_path / "home/g++")
    (tmp_path / "lib").mkdir()
    assert list(find_files_of(program)) == [program]


@pytest.mark.skipif(os.name != "posix", reason="there is no sandbox")
def test_a_script_is_shown_with_its_python(tmp_path: Path) -> None:
    script = put(tmp_path / "home/cmake", f"#!{sys.executable}\nimport cmake\n")
    assert set(unpacked.find_visible(Path(sys.executable))) <= set(find_files_of(script))


@pytest.mark.skipif(os.name != "posix", reason="there is no sandbox")
def test_what_every_process_sees_is_not_shown_again() -> None:
    assert list(find_files_of(Path("/usr/bin/env"))) == []
