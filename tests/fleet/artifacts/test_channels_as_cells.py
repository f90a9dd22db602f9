"""A night judges what a channel of the same store publishes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.fleet.artifacts import Artifact, write_index
from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.night import PlannedCell
from binary_checks.fleet.nights import make_plan
from binary_checks.fleet.store import Store, open_store
from binary_checks.model import CellState
from fixtures.build_wheel import build_wheel
from fixtures.fleet.index_front import serve_folder
from tests.fleet.artifacts.publishing import publish

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")

CELLS = """
[[cells]]
project = "demo"
system = "linux-x86_64"
python = ["3.11", "3.12"]
source = "test"

[sources.test]
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    return open_store(str(tmp_path / "kept"), make=True)


@pytest.fixture
def wheel(kept: Store, tmp_path: Path) -> Artifact:
    paths = [
        build_wheel(tmp_path / "dist", version=version, tags=("cp311-cp311-manylinux_2_17_x86_64",))
        for version in ("1.0+cpu", "1.0+cu.126")
    ]
    found = publish(kept, "test", *paths)
    write_index(kept, "test")
    return found[1]


def planned(folder: Path, place: str, text: str = CELLS) -> dict[str, PlannedCell]:
    (folder / "cells.toml").write_text(f"{text}{place}\n", encoding="utf-8")
    cells = make_plan(read_cells(folder / "cells.toml"), "2026-11-20").plan.cells
    return {each.cell.python: each for each in cells}


def demand_planned(cells: dict[str, PlannedCell], wheel: Artifact, base: str) -> None:
    found = cells["3.11"]
    assert (found.state, found.file_name, found.sha256) == (None, wheel.file_name, wheel.sha256)
    assert found.url.startswith(f"{base}/files/")
    assert cells["3.12"].state is CellState.MISSING


def test_by_the_index_in_the_folder(kept: Store, wheel: Artifact, tmp_path: Path) -> None:
    base = (tmp_path / "kept").as_uri()
    demand_planned(planned(tmp_path, f'index = "{base}/simple/test/"'), wheel, base)


def test_by_the_page_of_all_files(kept: Store, wheel: Artifact, tmp_path: Path) -> None:
    base = (tmp_path / "kept").as_uri()
    demand_planned(planned(tmp_path, f'index = "{base}/simple/test/files.html"'), wheel, base)
    with serve_folder(tmp_path / "kept") as front:
        cells = planned(tmp_path, f'index = "{front.url}/simple/test/files.html"')
    demand_planned(cells, wheel, front.url)


@pytest.mark.slow
def test_a_night_of_the_same_store_judges_its_channel_and_keeps_it(
    kept: Store, wheel: Artifact, tmp_path: Path
) -> None:
    def call(*words: str) -> str:
        command = [sys.executable, "-m", "binary_checks", *words]
        ended = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode in (0, 1), ended.stderr
        return ended.stdout

    base = (tmp_path / "kept").as_uri()
    text = f'{CELLS}index = "{base}/simple/test/"\n'
    (tmp_path / "cells.toml").write_text(text, encoding="utf-8")
    call("nightly", "run", "--store", kept.url, "cells.toml")
    call("nightly", "collect", "--store", kept.url)
    (result,) = (each.name for each in kept.names("night=") if "/results/" in each.name)
    document = json.loads(kept.read(result) or b"")
    assert document["sha256"] == wheel.sha256
    call("nightly", "prune", "--store", kept.url, "--keep", "1", "--do-it")
    assert kept.read(wheel.object_name) is not None
    assert call("artifact", "verify", "--store", kept.url).count("fault") == 0
