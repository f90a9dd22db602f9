"""A matrix from cibuildwheel's build identifiers."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.cells import read_cells
from tests.fleet.cells.cells_command import listed, refusal

IDENTIFIERS = """\
cp312-manylinux_x86_64
cp313t-manylinux_x86_64
cp312-musllinux_aarch64
pp311-manylinux_x86_64
gp312_250-manylinux_x86_64
cp312-macosx_arm64
cp313-macosx_universal2
cp39-win32
cp312-win_amd64
cp313-android_arm64_v8a
cp313-ios_arm64_iphoneos
cp313-pyodide_wasm32
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_identifiers_are_cells_and_what_no_cell_stands_for_is_left_out_with_a_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("ids").write_text(IDENTIFIERS, encoding="utf-8")
    assert main(["cells", "--ids", "--from", "cibuildwheel:ids", "--project", "demo"]) == 0
    printed = capsys.readouterr()
    assert sorted(printed.out.split()) == [
        "demo-linux-x86_64-3.12",
        "demo-linux-x86_64-3.13t",
        "demo-macos-arm64-3.12",
        "demo-macos-arm64-3.13",  # a universal2 wheel is one of both
        "demo-macos-x86_64-3.13",
        "demo-musllinux-aarch64-3.12",
        "demo-windows-amd64-3.12",
        "demo-windows-x86-3.9",
    ]
    assert printed.err.splitlines() == [
        f"warning: cibuildwheel:ids: 1 left out ({identifier}): {reason}"
        for identifier, reason in (
            ("pp311-manylinux_x86_64", "PyPy: cells support only CPython"),
            ("gp312_250-manylinux_x86_64", "GraalPy: cells support only CPython"),
            ("cp313-android_arm64_v8a", "Android: cells do not support this system"),
            ("cp313-ios_arm64_iphoneos", "iOS: cells do not support this system"),
            ("cp313-pyodide_wasm32", "Pyodide: cells do not support this system"),
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "cp312-win_amd64\n\ncp313-win_amd64\n",
        '{"only": "cp312-win_amd64", "os": "windows-2025"}\n{"only": "cp313-win_amd64"}\n',
        '[{"only": "cp312-win_amd64"}, "cp313-win_amd64"]',
    ],
)
def test_identifiers_stand_in_lines_or_in_json_as_workflows_have_them(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert listed(capsys, "--from", "cibuildwheel:-", "--project", "demo") == [
        *("demo-windows-amd64-3.12", "demo-windows-amd64-3.13"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["linux", "macos", "windows"])
def test_all_that_cibuildwheel_prints_is_read(
    platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shutil.which("cibuildwheel", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("no cibuildwheel beside this Python")
    Path("pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    command = [program, "--print-build-identifiers", "--archs", "all", "--platform", platform]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    Path("ids").write_text(printed.stdout)
    cells = listed(capsys, "--from", "cibuildwheel:ids", "--project", "demo")
    universal = printed.stdout.count("universal2")
    assert len(cells) == len(printed.stdout.split()) - universal


def test_a_matrix_is_written_with_one_block_for_each_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("ids").write_text("cp313-macosx_universal2\ncp313-macosx_arm64\npp311-win_amd64\n")
    assert main(["cells", "--toml", "--from", "cibuildwheel:ids", "--project", "demo"]) == 0
    text = capsys.readouterr().out
    assert text.split("\n\n")[1:] == [
        '[[cells]]\nproject = "demo"\nsystem = "macos-x86_64"\npython = "3.13"',
        '[[cells]]\nproject = "demo"\nsystem = "macos-arm64"\npython = "3.13"\n',
    ]
    assert "# 1 left out (pp311-win_amd64): PyPy: cells support only CPython\n" in text
    Path("cells.toml").write_text(text, encoding="utf-8")
    ids = [cell.id for cell in read_cells(Path("cells.toml")).cells]
    assert ids == ["demo-macos-x86_64-3.13", "demo-macos-arm64-3.13"]


# What is wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "cp312-manylinux_x86-64",
            "line 1: 'cp312-manylinux_x86-64' is not a cibuildwheel identifier",
        ),
        ("cp312-beos_x86_64", "line 1: cp312-beos_x86_64: unknown system"),
        ("zz312-win_amd64", "line 1: zz312-win_amd64: unknown Python"),
        ("cp27-win_amd64", "line 1: cp27-win_amd64: unknown Python"),
        ("cp312-manylinux_mips", "line 1: cp312-manylinux_mips: linux has no architecture 'mips'"),
        ('{"os": "ubuntu"}', "line 1: neither an identifier nor an object with one in 'only'"),
        ('{"only": ', "line 1: not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\x00\x1b[31m", "line 1: '\\x00\\x1b[31m' is not a cibuildwheel identifier"),
        ("", "no identifier corresponds to a cell"),
        ("pp311-win_amd64", "no identifier corresponds to a cell"),
    ],
)
def test_what_is_no_identifier_is_one_line(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ids").write_text(text, encoding="utf-8")
    refused = refusal(capsys, "--from", "cibuildwheel:ids", "--project", "demo")
    assert refused.startswith(f"cibuildwheel:ids: {said}")


def test_a_file_that_is_no_text_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ids").write_bytes(b"\xff\xfe")
    assert refusal(capsys, "--from", "cibuildwheel:ids", "--project", "demo") == (
        "cibuildwheel:ids: byte 0 is not UTF-8"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "tox:x"], "--from tox:x: not cibuildwheel:FILE"),
        (["--from", "cibuildwheel"], "--from cibuildwheel: not cibuildwheel:FILE"),
        (["--from", "cibuildwheel:none"], "cibuildwheel:none: No such file or directory"),
        (["x.toml", "--from", "cibuildwheel:y"], "cells: x.toml and --from: give only one of them"),
        (["--toml"], "cells: --toml can be used only with --from"),
        (["--project", "x"], "cells: --project can be used only with --from"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *options) == said


def test_identifiers_need_a_project(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ids").write_text(IDENTIFIERS, encoding="utf-8")
    assert refusal(capsys, "--from", "cibuildwheel:ids") == (
        "--from cibuildwheel:ids: identifiers name no project; add --project NAME"
    )
