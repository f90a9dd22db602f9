"""The jobs of generated GitHub workflows, run here: planned, built, tested and kept."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.ci.generated_files import write_files
from binary_checks.fleet.ci.pipeline import make_pipeline
from fixtures.samples import FOLDER
from tests.fleet.artifacts.made_verdicts import make_key
from tests.fleet.ci.ci_files import Json
from tests.fleet.ci.github_shell import GithubShell, read_rows

yaml = pytest.importorskip("yaml")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64", reason="runs a Linux cell"
    ),
]
HEALTHY = "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
BROKEN = "demo_broken-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
PROFILE = "own * $(touch ran) `touch ran`; touch ran.toml"
CELLS = f"""\
[[cells]]
project = "demo"
system = "linux-x86_64"
python = "PYTHON"
[[run]]
when = "id=*"
profile = '{PROFILE}'
options = ["--require", "linkage"]
[ci]
systems = ["github"]
build = ["mkdir dist", 'cp "wheels of $CELL_PROJECT"/*.whl dist/']
store = "s3://nobody/reads-this"
install = "pip"
built = "test"
published = "release"
policy = "policy.toml"
key = "SIGNING_KEY"
"""
POLICY = """\
[[keys]]
name = "ci"
file = "ci.pub"
[channels.release]
from = ["test"]
families = ["linkage"]
threshold = 1
"""


def set_up(folder: Path, text: str, wheel: str, **secrets: str) -> tuple[GithubShell, Json]:
    """A repository with its wheel and matrix; its workflows by the names of their files."""
    repository = folder / "repository"
    (repository / "wheels of demo").mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "wheels" / wheel, repository / "wheels of demo")
    python = ".".join(platform.python_version_tuple()[:2])
    cells = repository / "cells.toml"
    cells.write_text(text.replace("PYTHON", python), encoding="utf-8")
    files = write_files(make_pipeline(read_cells(cells), repository))[0]
    shell = GithubShell(
        repository=repository,
        artifacts=folder / "artifacts",
        secrets=secrets,
        environment={"BINARY_CHECKS_STORE": str(folder / "store"), "GITHUB_SHA": "ab" * 20},
    )
    return shell, {Path(path).stem: yaml.safe_load(text) for path, text in files.items()}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str, Path]]:
    """Run the named stages of the only cell, one after another, each in a folder of its own."""

    def run(wheel: str, *stages: str, also: str = "") -> tuple[int, str, Path]:
        repository = tmp_path / "repository"
        repository.mkdir()
        (repository / PROFILE).write_text("", encoding="utf-8")
        (repository / "policy.toml").write_text(POLICY, encoding="utf-8")
        key, _ = make_key(repository)
        shell, workflows = set_up(tmp_path, CELLS + also, wheel, SIGNING_KEY=key.read_text())
        status, log = shell.run(workflows["binary-checks"], "plan", tmp_path / "plan")
        assert status == 0, log
        (row,) = read_rows(shell.needs["plan"]["chunks"])
        worst = 0
        for name in stages:
            chain = workflows["binary-checks-cell"]
            status, said = replace(shell, row=row).run(chain, name, tmp_path / name)
            log, worst = log + said, max(worst, status)
        return worst, log, tmp_path

    return run


def result_of(folder: Path) -> Mapping[str, Any]:
    (path,) = folder.glob("artifacts/cpu-*/result.json")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def channels_of(folder: Path) -> set[str]:
    """Which channels have a package."""
    return {path.name for path in (folder / "store" / "channels").iterdir()}


def test_a_healthy_package_is_built_passes_and_is_published(
    run: Callable[..., tuple[int, str, Path]],
) -> None:
    """By a profile whose name is full of shell, of which nothing is run."""
    status, log, folder = run(HEALTHY, "build", "test", "publish")
    assert status == 0, log
    (package,) = result_of(folder)["packages"]
    assert package["file_name"] == HEALTHY
    assert [*folder.glob("artifacts/cpu-*/facts.json")]
    assert not [*folder.rglob("ran*")]
    assert channels_of(folder) == {"test", "release"}
    (verdict,) = folder.glob("store/packages/*/*/verdicts/*.json")
    assert json.loads(verdict.read_text("utf-8"))["signatures"]
    assert "PRIVATE KEY" not in log


def test_a_build_that_leaves_nothing_fails(run: Callable[..., tuple[int, str, Path]]) -> None:
    status, log, folder = run(HEALTHY, "test")
    assert status == 4
    assert "ci stage test: the build wrote nothing to dist/" in log
    assert not [*folder.glob("artifacts/cpu-*")]


def test_a_broken_package_is_kept_with_its_result_and_not_published(
    run: Callable[..., tuple[int, str, Path]],
) -> None:
    status, log, folder = run(BROKEN, "build", "test", "publish")
    assert status == 1, log
    assert "missing-library" in log
    assert result_of(folder)["exit_code"] == 1
    assert channels_of(folder) == {"test"}


GPU = """\
[[gpu]]
when = "id=*"
[[runners]]
when = "id=*"
stage = "gpu"
github = ["gpu"]
"""


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has a GPU")
def test_without_a_gpu_the_gpu_stage_fails_with_the_facts_of_the_cpu_stage(
    run: Callable[..., tuple[int, str, Path]],
) -> None:
    status, log, folder = run(HEALTHY, "build", "test", "gpu", also=GPU)
    assert status == 1, log
    (result,) = folder.glob("artifacts/gpu-*/result.json")
    complaints = "".join(json.loads(result.read_text("utf-8"))["complaints"])
    assert "--require gpu" in complaints
    assert "--require linkage" not in complaints  # which is the CPU stage's


WATCHED = """\
[sources.here]
folder = "wheels of demo"
[[cells]]
project = "demo"
system = "linux-x86_64"
python = "PYTHON"
source = "here"
[ci]
systems = ["github"]
store = "s3://nobody/reads-this"
install = "pip"
"""


def test_the_smoke_of_a_night_ends_with_its_pages(tmp_path: Path) -> None:
    shell, workflows = set_up(tmp_path, WATCHED, HEALTHY)
    night = workflows["binary-checks-night"]
    status, log = shell.run(night, "plan", tmp_path / "plan")
    assert status == 0, log
    (row,) = read_rows(shell.needs["plan"]["smoke"])
    for name in ("smoke", "collect"):
        status, log = replace(shell, row=row).run(night, name, tmp_path / name)
        assert status == 0, log
    assert "1 passed" in log
    assert (tmp_path / "artifacts" / "site" / "index.html").is_file()
