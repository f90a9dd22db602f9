"""A matrix from cibuildwheel's build identifiers."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.cells import parse_cells
from tests.fleet.cells.cells_command import refusal

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
TOGETHER = "cells: --from and --project NAME go together, without CELLS.toml"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(source: str) -> int:
    return main(["cells", "--from", f"cibuildwheel:{source}", "--project", "demo"])


def ids(text: str) -> list[str]:
    return [cell.id for cell in parse_cells(text.encode(), Path("cells.toml")).cells]


def test_identifiers_become_cells_and_what_no_cell_stands_for_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("ids").write_text(IDENTIFIERS, encoding="utf-8")
    assert imported("ids") == 0
    printed = capsys.readouterr()
    assert sorted(ids(printed.out)) == [
        "demo-linux-x86_64-3.12",
        "demo-linux-x86_64-3.13t",
        "demo-macos-arm64-3.12",
        "demo-macos-arm64-3.13",  # a universal2 wheel is one of both
        "demo-macos-x86_64-3.13",
        "demo-musllinux-aarch64-3.12",
        "demo-windows-amd64-3.12",
        "demo-windows-x86-3.9",
    ]
    assert printed.err == (
        "warning: cibuildwheel:ids: 5 left out, which no cell stands for: pp311-manylinux_x86_64, "
        "gp312_250-manylinux_x86_64, cp313-android_arm64_v8a, cp313-ios_arm64_iphoneos, "
        "cp313-pyodide_wasm32\n"
    )


def test_identifiers_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"\xef\xbb\xbfcp312-win_amd64\r\n\ncp313-win_arm64\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert imported("-") == 0
    found = ids(capsys.readouterr().out)
    assert found == ["demo-windows-amd64-3.12", "demo-windows-arm64-3.13"]


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
    assert imported("ids") == 0
    cells = ids(capsys.readouterr().out)
    universal = printed.stdout.count("universal2")
    assert len(cells) == len(printed.stdout.split()) - universal


def test_a_matrix_is_written_with_one_block_for_each_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("ids").write_text("cp313-macosx_universal2\ncp313-macosx_arm64\npp311-win_amd64\n")
    assert imported("ids") == 0
    assert capsys.readouterr().out.split("\n\n")[1:] == [
        '[[cells]]\nproject = "demo"\nsystem = "macos-x86_64"\npython = "3.13"',
        '[[cells]]\nproject = "demo"\nsystem = "macos-arm64"\npython = "3.13"\n',
    ]


# What is wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "cp312-manylinux_x86-64",
            "line 1: 'cp312-manylinux_x86-64' is not a cibuildwheel identifier",
        ),
        ('{"only": "cp312-win_amd64"}', 'line 1: \'{"only": "cp312-win_amd64"}\' is not a'),
        ("\x00\x1b[31m", "line 1: '\\x00\\x1b[31m' is not a cibuildwheel identifier"),
        ("\udcff\udcfe", "line 1: "),  # no text
        ("", "no identifier corresponds to a cell"),
        ("pp311-win_amd64", "no identifier corresponds to a cell"),
    ],
)
def test_what_is_no_identifier_is_one_line(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ids").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused = refusal(capsys, "--from", "cibuildwheel:ids", "--project", "demo")
    assert refused.startswith(f"cibuildwheel:ids: {said}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "tox:x", "--project", "x"], "--from tox:x: not cibuildwheel:FILE"),
        (["--from", "cibuildwheel", "--project", "x"], "--from cibuildwheel: not"),
        (
            ["--from", "cibuildwheel:none", "--project", "x"],
            "cibuildwheel:none: No such file or directory",
        ),
        (["--from", "cibuildwheel:-", "--project", "a b"], "--project: 'a b'"),
        (["x.toml", "--from", "cibuildwheel:y", "--project", "x"], TOGETHER),
        (["--from", "cibuildwheel:y"], TOGETHER),
        (["--project", "x"], TOGETHER),
        (
            ["--json", "--from", "cibuildwheel:y", "--project", "x"],
            "cells: argument --from: not allowed with argument --json",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *options).startswith(said)
