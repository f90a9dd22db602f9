"""The same matrix gives the same cells, tiers, texts and CI files, for any hash seed and Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import packaging
import pytest

from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.fleet.nights import find_python
from fixtures.slow import slow
from tests.fleet.ci.ci_files import PROJECT

jinja2 = pytest.importorskip("jinja2")
markupsafe = pytest.importorskip("markupsafe")
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "pytorch" / "cells.toml"
COMMANDS = (
    ["cells", str(EXAMPLE), "--json"],
    ["cells", str(EXAMPLE)],
    ["cells", str(EXAMPLE), "--tier", "pr", "--json"],
    ["cells", str(EXAMPLE), "--tier", "merge", "--also", "system=macos variant=cu*", "--ids"],
    ["cells", "--from", "cibuildwheel:ids", "--project", "demo"],
    ["ci", "write"],
)
SCRIPT = f"from binary_checks.command import main\nfor each in {COMMANDS!r}: assert main(each) == 0"


def made(folder: Path, *, seed: str, python: str = sys.executable) -> tuple[str, list[bytes]]:
    """All that the commands print, and the files that they write, in one process."""
    folder.mkdir()
    systems = ("manylinux_x86_64", "musllinux_aarch64", "macosx_universal2", "win32", "ios_arm64")
    ids = [f"cp3{minor}-{system}" for minor in range(10, 15) for system in systems]
    (folder / "ids").write_text("\n".join(ids[:-3]), encoding="utf-8")
    named = ", ".join(f'"{name}"' for name in SYSTEMS)
    text = PROJECT.replace('systems = ["github"]', f"systems = [{named}]")
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    modules = (jinja2, markupsafe, packaging, pytest)
    libraries = {str(Path(str(module.__file__)).parents[1]) for module in modules}
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
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    assert len(files) > 6
    return ended.stdout, [each.read_bytes() for each in files]


@pytest.mark.parametrize("seeds", [2, *slow(20)])
def test_of_several_hash_seeds(tmp_path: Path, seeds: int) -> None:
    first, *others = (made(tmp_path / str(seed), seed=str(seed)) for seed in range(seeds))
    assert all(each == first for each in others)


@pytest.mark.slow
def test_of_every_python_here(tmp_path: Path) -> None:
    pythons = [path for each in ("3.11", "3.12", "3.13", "3.14") if (path := find_python(each))]
    if len(pythons) < 2:
        pytest.skip("needs two Pythons from 3.11 on")
    first, *others = (
        made(tmp_path / str(number), seed="random", python=path)
        for number, path in enumerate(pythons)
    )
    assert all(each == first for each in others)
