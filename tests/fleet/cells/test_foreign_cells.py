"""A matrix that a project keeps elsewhere: cibuildwheel's identifiers, PyTorch's JSON."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.cells_file import read_cells
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
HOST = "https://download.pytorch.org"
CUDA = {
    "python_version": "3.12",
    "gpu_arch_type": "cuda",
    "gpu_arch_version": "13.0",
    "desired_cuda": "cu130",
    "container_image": "pytorch/manylinux2_28-builder:cuda13.0",
    "package_type": "manywheel",
    "build_name": "manywheel-py3_12-cuda13_0",
    "validation_runner": "linux.g5.4xlarge.nvidia.gpu",
    "installation": f"pip3 install --pre torch torchvision --index-url {HOST}/whl/nightly/cu130",
    "channel": "nightly",
    "upload_to_base_bucket": "no",
    "stable_version": "2.13.0",
}
MACOS = CUDA | {
    "python_version": "3.10.19",
    "gpu_arch_type": "cpu",
    "desired_cuda": "cpu",
    "package_type": "wheel",
    "validation_runner": "macos-m1-stable",
    "installation": f"pip3 install --pre torch --index-url {HOST}/whl/nightly/cpu",
}
LIBTORCH = {
    "desired_cuda": "cu130",
    "libtorch_variant": "shared-with-deps",
    "libtorch_config": "",
    "devtoolset": "cxx11-abi",
    "package_type": "libtorch",
    "build_name": "libtorch-cuda13_0-shared-with-deps-cxx11-abi",
    "validation_runner": "linux.2xlarge",
    "installation": f"{HOST}/libtorch/nightly/cu130/libtorch-shared-with-deps-latest.zip",
    "channel": "nightly",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*entries: Mapping[str, object]) -> str:
    Path("matrix.json").write_text(json.dumps({"include": entries}), encoding="utf-8")
    return "pytorch:matrix.json"


def of_file(text: str) -> list[Cell]:
    Path("cells.toml").write_text(text, encoding="utf-8")
    return sorted(read_cells(Path("cells.toml")).cells, key=lambda cell: cell.id)


# cibuildwheel


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
            ("cp313-android_arm64_v8a", "Android: cells have no such system"),
            ("cp313-ios_arm64_iphoneos", "iOS: cells have no such system"),
            ("cp313-pyodide_wasm32", "Pyodide: cells have no such system"),
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


# PyTorch


def test_entries_of_pytorch_are_cells_with_their_channels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cells", "--from", write(CUDA, MACOS, LIBTORCH), "--toml"]) == 0
    text = capsys.readouterr().out
    cells = of_file(text)
    assert [(cell.id, cell.gpu) for cell in cells] == [
        ("torch-libtorch-shared-with-deps-linux-x86_64-cu130-cxx11-nightly-libtorch-linux", False),
        ("torch-wheel-linux-x86_64-3.12-cu130-nightly", True),
        ("torch-wheel-macos-arm64-3.10-cpu-nightly", False),
    ]
    channels = read_cells(Path("cells.toml")).channels
    assert channels["nightly"].index == f"{HOST}/whl/nightly/{{variant}}"
    assert channels["nightly"].prereleases
    assert channels["nightly-libtorch-linux"].url == (
        f"{HOST}/libtorch/nightly/{{variant}}/libtorch-{{libtorch}}-latest.zip"
    )


def test_what_is_installed_from_pypi_has_a_channel_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    release = {"channel": "release", "installation": "pip3 install torch torchvision"}
    other = {"channel": "release", "installation": f"pip3 install torch --index-url {HOST}/whl/cpu"}
    assert listed(capsys, "--from", write(CUDA | release, MACOS | other)) == [
        *("torch-linux-x86_64-3.12-cu130-release-pypi", "torch-macos-arm64-3.10-cpu-release"),
    ]


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ({"validation_runner": "linux.arm64.m7g.4xlarge"}, "linux-aarch64"),
        ({"validation_runner": "windows.g4dn.xlarge"}, "windows-amd64"),
        ({"validation_runner": "windows-11-arm64-preview"}, "windows-arm64"),
        ({"validation_runner": "macos-13"}, "macos-x86_64"),
        ({"validation_runner": "", "gpu_arch_type": "cuda-aarch64"}, "linux-aarch64"),
        ({"validation_runner": "", "gpu_arch_type": "cpu-s390x"}, "linux-s390x"),
        ({"validation_runner": ""}, "linux-x86_64"),  # manywheel
    ],
)
def test_the_runner_says_of_which_system_an_entry_is(
    said: dict[str, str], host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(capsys, "--from", write(CUDA | said)) == [f"torch-{host}-3.12-cu130-nightly"]


def test_where_no_runner_says_it_the_user_does(capsys: pytest.CaptureFixture[str]) -> None:
    entry = MACOS | {"validation_runner": ""}
    said = refusal(capsys, "--from", write(entry))
    assert said == (
        "pytorch:matrix.json: include[0]: no validation_runner says of which system it is; "
        "name it with --system"
    )
    assert listed(capsys, "--from", write(entry), "--system", "windows-amd64") == [
        "torch-windows-amd64-3.10-cpu-nightly"
    ]


def test_the_variables_of_one_job_are_one_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"MATRIX_{key.upper()}={value}" for key, value in CUDA.items()]
    text = "\n".join(["PATH=/bin", *lines])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert listed(capsys, "--from", "pytorch:-") == ["torch-linux-x86_64-3.12-cu130-nightly"]


def test_a_conda_package_is_published_in_the_first_channel_that_is_not_nvidias(
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed = "conda install pytorch pytorch-cuda=12.6 -c nvidia -c pytorch-nightly -c extra"
    entry = CUDA | {"package_type": "conda", "installation": installed}
    assert main(["cells", "--from", write(entry, CUDA), "--toml"]) == 0
    wheel, conda = sorted(of_file(capsys.readouterr().out), key=lambda cell: cell.kind)[::-1]
    assert (wheel.channel, conda.channel) == ("nightly", "nightly-conda")
    assert read_cells(Path("cells.toml")).channels["nightly-conda"].conda == "pytorch-nightly"


def test_a_debug_build_and_an_archive_without_an_address_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    debug = LIBTORCH | {"libtorch_config": "debug", "build_name": "libtorch-debug"}
    nowhere = LIBTORCH | {"installation": "", "build_name": "libtorch-nowhere"}
    assert main(["cells", "--ids", "--from", write(CUDA, debug, nowhere)]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert "1 left out (libtorch-debug): debug: " in first
    assert second.endswith(
        "1 left out (libtorch-nowhere): libtorch: no channel and installation say where it is "
        "published"
    )


# What is wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "cp312-manylinux_x86-64",
            "line 1: 'cp312-manylinux_x86-64' is not a cibuildwheel identifier",
        ),
        ("cp312-beos_x86_64", "line 1: cp312-beos_x86_64: a system that is not known"),
        ("zz312-win_amd64", "line 1: zz312-win_amd64: a Python that is not known"),
        ("cp27-win_amd64", "line 1: cp27-win_amd64: a Python that is not known"),
        ("cp312-manylinux_mips", "line 1: cp312-manylinux_mips: linux has no architecture 'mips'"),
        ('{"os": "ubuntu"}', "line 1: neither an identifier nor an object whose 'only' is one"),
        ('{"only": ', "line 1: not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\x00\x1b[31m", "line 1: '\\x00\\x1b[31m' is not a cibuildwheel identifier"),
        ("", "no identifier in it that is a cell"),
        ("pp311-win_amd64", "no identifier in it that is a cell"),
    ],
)
def test_what_is_no_identifier_is_one_line(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ids").write_text(text, encoding="utf-8")
    refused = refusal(capsys, "--from", "cibuildwheel:ids", "--project", "demo")
    assert refused.startswith(f"cibuildwheel:ids: {said}")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("text", "include[0]: not an object"),
        (CUDA | {"python_version": 3.12}, "include[0]: python_version: 3.12 is not a string"),
        (CUDA | {"python_version": "2.7"}, "include[0]: python_version: '2.7' does not go with"),
        (LIBTORCH | {"python_version": "3.12"}, "include[0]: python_version: '3.12' does not go"),
        (CUDA | {"package_type": "rpm"}, "include[0]: package_type: 'rpm' is not one of: wheel"),
        (CUDA | {"desired_cuda": "../x"}, "include[0]: desired_cuda: '../x' names no file"),
        (CUDA | {"channel": "a b"}, "include[0]: channel: 'a b' names no file"),
        (
            LIBTORCH | {"libtorch_variant": "shard-with-deps"},
            "include[0]: libtorch_variant: 'shard-with-deps' is not one of: ",
        ),
        (
            CUDA | {"installation": "pip install --index-url https://me:pw@x.example/whl"},
            "channels.nightly: index: https://x.example/whl has credentials",
        ),
    ],
)
def test_what_is_no_entry_of_pytorch_is_one_line(
    entry: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = refusal(capsys, "--from", write(entry))
    assert refused.startswith(f"pytorch:matrix.json: {said}")
    assert "pw@" not in refused


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"include": 3}', "include: not a list"),
        (b'{"include": []}', "no entry in it that is a cell"),
        (b"hello", "neither JSON nor lines as MATRIX_PYTHON_VERSION=3.12"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b'{"include": [' + b"{}," * 20_001 + b"{}]}", "include[0]: no validation_runner"),
    ],
)
def test_a_document_that_is_none_is_one_line(
    content: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("matrix.json").write_bytes(content)
    assert refusal(capsys, "--from", "pytorch:matrix.json").startswith(
        f"pytorch:matrix.json: {said}"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "tox:x"], "--from tox:x: not FORM:FILE; forms: cibuildwheel, pytorch"),
        (["--from", "pytorch"], "--from pytorch: not FORM:FILE; forms: cibuildwheel, pytorch"),
        (["--from", "pytorch:nowhere"], "pytorch:nowhere: No such file or directory"),
        (["x.toml", "--from", "pytorch:y"], "cells: x.toml and --from: name one of them"),
        (["--toml"], "cells: --toml goes with --from"),
        (["--project", "x"], "cells: --project goes with --from"),
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
