"""The same matrix gives the same bytes, for any hash seed and Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.fleet.nights import find_python
from tests.fleet.ci.ci_files import PROJECT

jinja2 = pytest.importorskip("jinja2")
markupsafe = pytest.importorskip("markupsafe")
ROOT = Path(__file__).parents[3]


def write(folder: Path, *, python: str = sys.executable, seed: str) -> str:
    """The digest of all files that are written from scratch."""
    folder.mkdir()
    systems = ", ".join(f'"{name}"' for name in SYSTEMS)
    text = PROJECT.replace('systems = ["github"]', f"systems = [{systems}]")
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    libraries = {
        str(Path(str(module.__file__)).parents[1]) for module in (jinja2, markupsafe, pytest)
    }
    ended = subprocess.run(
        [python, "-m", "binary_checks", "ci", "write"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sorted(libraries)]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert len(files) > 4
    return hashlib.sha256(
        b"".join(path.relative_to(folder).as_posix().encode() + path.read_bytes() for path in files)
    ).hexdigest()


def test_of_two_hash_seeds(tmp_path: Path) -> None:
    assert write(tmp_path / "a", seed="0") == write(tmp_path / "b", seed="1")


@pytest.mark.slow
def test_of_twenty_hash_seeds(tmp_path: Path) -> None:
    assert len({write(tmp_path / str(seed), seed=str(seed)) for seed in range(20)}) == 1


@pytest.mark.slow
def test_of_every_python_here(tmp_path: Path) -> None:
    pythons = {
        each: path for each in ("3.11", "3.12", "3.13", "3.14") if (path := find_python(each))
    }
    if len(pythons) < 2:
        pytest.skip("needs two Pythons from 3.11 on")
    found = {
        each: write(tmp_path / each, python=path, seed="random") for each, path in pythons.items()
    }
    assert len({*found.values()}) == 1, found
