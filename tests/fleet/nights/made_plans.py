"""Plans made from a matrix and an index on loopback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.night import PlannedCell
from binary_checks.fleet.nights import PreparedNight, make_plan
from binary_checks.places import index_settings
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex, serve_only_index

NIGHT = "2026-11-20"
CELLS = """
[[cells]]
project = "demo"
system = ["linux-x86_64", "windows-amd64", "macos-arm64"]
python = ["3.11", "3.12"]
"""
LINUX, WINDOWS = "manylinux_2_17_x86_64", "win_amd64"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    monkeypatch.setattr(index_settings, "has_pip", lambda: False)  # its variables are enough
    with serve_only_index(monkeypatch, tmp_path / "cache") as served:
        yield served


def plan(folder: Path, text: str) -> PreparedNight:
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    return make_plan(read_cells(folder / "cells.toml"), NIGHT)


def planned(folder: Path, text: str) -> dict[str, PlannedCell]:
    return {each.cell.id: each for each in plan(folder, text).plan.cells}


def offer(index: PackageIndex, folder: Path, tag: str, version: str = "1.0", **said: str) -> Path:
    path = build_wheel(folder, version=version, tags=[tag], members={"demo/x.py": version})
    index.offer(path, "demo", **said)  # type: ignore[arg-type]
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
