"""The same matrix gives the same cells, tiers and texts, for any hash seed and Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import packaging
import pytest

from binary_checks.fleet.nights import find_python

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "pytorch" / "cells.toml"
COMMANDS = (
    ["cells", str(EXAMPLE), "--json"],
    ["cells", str(EXAMPLE)],
    ["cells", str(EXAMPLE), "--tier", "pr", "--json"],
    ["cells", str(EXAMPLE), "--tier", "merge", "--also", "system=macos variant=cu*", "--ids"],
    ["cells", "--from", "cibuildwheel:ids", "--project", "demo"],
)
SCRIPT = f"from binary_checks.command import main\nfor each in {COMMANDS!r}: assert main(each) == 0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    systems = ("manylinux_x86_64", "musllinux_aarch64", "macosx_universal2", "win32", "ios_arm64")
    ids = [f"cp3{minor}-{system}" for minor in range(10, 15) for system in systems]
    (tmp_path / "ids").write_text("\n".join(ids[:-3]), encoding="utf-8")
    return tmp_path


def printed(folder: Path, *, seed: str, python: str = sys.executable) -> str:
    """All that the commands print, in one process."""
    libraries = {str(Path(str(module.__file__)).parents[1]) for module in (packaging, pytest)}
    path = os.pathsep.join([str(ROOT), *sorted(libraries)])
    ended = subprocess.run(
        [python, "-c", SCRIPT],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("\n") > 400
    return ended.stdout


def test_of_two_hash_seeds(folder: Path) -> None:
    assert printed(folder, seed="0") == printed(folder, seed="1")


@pytest.mark.slow
def test_of_twenty_hash_seeds(folder: Path) -> None:
    assert len({printed(folder, seed=str(seed)) for seed in range(20)}) == 1


@pytest.mark.slow
def test_of_every_python_here(folder: Path) -> None:
    pythons = {
        each: path for each in ("3.11", "3.12", "3.13", "3.14") if (path := find_python(each))
    }
    if len(pythons) < 2:
        pytest.skip("needs two Pythons from 3.11 on")
    found = {each: printed(folder, seed="random", python=path) for each, path in pythons.items()}
    assert len({*found.values()}) == 1, found.keys()
