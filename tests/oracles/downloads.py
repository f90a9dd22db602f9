"""Fetches published packages for the tests that compare on them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def pip(*arguments: str | Path) -> None:
    """Run pip; skip the test where the index does not have what is asked for."""
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr


def download(folder: Path, platforms: tuple[str, ...], requirements: list[str]) -> list[Path]:
    """These wheels, for CPython 3.11 on a platform that takes these tags."""
    wanted = ["--no-deps", "--only-binary=:all:", "--python-version", "3.11"]
    for platform in platforms:
        wanted += ["--platform", platform]
    pip("download", *wanted, "--dest", folder, *requirements)
    return sorted(folder.glob("*.whl"))
