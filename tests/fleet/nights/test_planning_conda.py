"""Conda cells in a plan: the newest build for subdir and Python, of a channel or of a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.night import PlannedCell
from binary_checks.fleet.nights import make_plan
from binary_checks.model import CellState
from fixtures.build_conda import build_conda
from fixtures.conda.channel import index

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

CELLS = """
[[cells]]
project = "demo"
kind = "conda"
system = ["linux-x86_64", "windows-amd64"]
python = ["3.10", "3.11", "3.12", "3.13t"]
source = "own"
"""


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "channel"
    for version, build in (
        *(("1.0", "py311h0_0"), ("1.0", "py312h0_0"), ("1.0", "py312h0_1"), ("1.1", "py311h0_0")),
    ):
        build_conda(
            folder / "linux-64",
            version=version,
            build=build,
            index_changes={"build_number": int(build[-1])},
        )
    free = ("python_abi 3.13.* *_cp313t", "python >=3.13,<3.14.0a0")
    build_conda(folder / "linux-64", version="1.0", build="py313h0_0", depends=free)
    return index(folder)


def planned(folder: Path, text: str) -> dict[str, PlannedCell]:
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    cells = make_plan(read_cells(folder / "cells.toml"), "2026-11-20").plan.cells
    return {each.cell.id.removeprefix("demo-conda-"): each for each in cells}


def test_a_channel_has_the_newest_build_for_the_system_and_the_python(
    channel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rattler", reason="no py-rattler, which asks channels")
    cells = planned(tmp_path, f'{CELLS}[sources.own]\nconda = "{channel}"\n')
    names = {cell: each.file_name for cell, each in cells.items() if each.state is None}
    assert names == {
        "linux-x86_64-3.11-own": "demo-1.1-py311h0_0.conda",
        "linux-x86_64-3.12-own": "demo-1.0-py312h0_1.conda",
        "linux-x86_64-3.13t-own": "demo-1.0-py313h0_0.conda",
    }
    found = cells["linux-x86_64-3.11-own"]
    path = channel / "linux-64" / found.file_name
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (found.name, found.version, found.url) == ("demo", "1.1", path.as_uri())
    lacking = cells["windows-amd64-3.11-own"]
    assert lacking.state is CellState.MISSING
    assert lacking.reason.startswith("no package in the channels matches demo for win-64")
    lacking = cells["linux-x86_64-3.10-own"]  # there are builds for other Pythons alone
    assert lacking.state is CellState.MISSING
    assert lacking.reason.startswith(
        "no build of demo for Python 3.10 on linux-64; 1.1 has py311h0_0 (asked: "
    )


def test_a_channel_that_cannot_be_read_is_no_lack(tmp_path: Path) -> None:
    pytest.importorskip("rattler", reason="no py-rattler, which asks channels")
    (tmp_path / "channel" / "linux-64").mkdir(parents=True)
    (tmp_path / "channel" / "linux-64" / "repodata.json").write_text("<html>")
    cells = planned(tmp_path, f'{CELLS}[sources.own]\nconda = "{tmp_path}/channel"\n')
    assert {each.state for each in cells.values()} == {CellState.INFRA}


def test_loose_conda_packages_in_a_folder_go_by_their_names(channel: Path, tmp_path: Path) -> None:
    text = CELLS.replace(', "3.13t"', "")
    cells = planned(tmp_path, f'{text}[sources.own]\nfolder = "channel"\n')
    names = {cell: each.file_name for cell, each in cells.items() if each.state is None}
    assert names == {
        "linux-x86_64-3.11-own": "demo-1.1-py311h0_0.conda",
        "linux-x86_64-3.12-own": "demo-1.0-py312h0_1.conda",
    }
    assert cells["windows-amd64-3.11-own"].state is CellState.MISSING
