"""Jobs of GitLab, CircleCI and Azure, and environments of tox, run here on built wheels."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.cells.cells_file import parse_cells
from binary_checks.fleet.ci.generators import write_files
from binary_checks.fleet.ci.making_pipeline import make_pipeline
from tests.fleet.ci.ci_files import demand_tool

yaml = pytest.importorskip("yaml")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the wheels are of Linux"),
]

ROOT = Path(__file__).parents[3]
WHEELS = ROOT / "fixtures" / "samples" / "wheels"
FIT = WHEELS / "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
BROKEN = WHEELS / "demo_broken-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
PYTHON = ".".join(map(str, sys.version_info[:2]))
CELL = f"demo-linux-x86_64-{PYTHON}"
PROJECT = f"""\
[[cells]]
project = "demo"
system = "linux-x86_64"
python = ["{PYTHON}", "3.99"]
[[run]]
when = "id=*"
options = ["-m", "linkage or python_abi"]
[ci]
systems = ["gitlab", "circleci", "azure", "tox"]
build = ["mkdir dist", "cp \\"$BUILT\\" dist/"]
install = ["{{install}}"]
"""


def write(folder: Path, install: str = "pip") -> dict[str, str]:
    """The files of all systems; ``pip install pip`` has nothing to do."""
    text = PROJECT.replace("{install}", install)
    pipeline = make_pipeline(parse_cells(text.encode(), folder / "cells.toml"), folder)
    return write_files(pipeline)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobShell:
    """One job as its CI system would run it: its variables, and the scripts of its steps."""

    environment: Mapping[str, str]
    scripts: tuple[str, ...]

    def run(self, folder: Path, built: Path, only: str = "") -> tuple[int, str]:
        """The status of the first step that failed, and what was printed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        said = ""
        for script in self.scripts:
            ended = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                cwd=folder,
                env={
                    **os.environ,
                    **self.environment,
                    "PATH": path,
                    "BUILT": str(built),
                    "BINARY_CHECKS_ONLY": only,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=200,
            )
            said += ended.stdout
            if ended.returncode:
                return ended.returncode, said
        return 0, said


def read_gitlab(files: Mapping[str, str], stage: str) -> JobShell:
    document = yaml.safe_load(files[".gitlab/binary-checks.yml"])
    job = document[f"{stage} {CELL}"]
    base = document[job["extends"][0]]
    return JobShell(
        environment={**base.get("variables", {}), **job["variables"]},
        scripts=tuple(base["script"]),
    )


def read_circleci(files: Mapping[str, str], stage: str) -> JobShell:
    """With the parameters in their places."""
    document = yaml.safe_load(files[".circleci/config.yml"])
    calls = [call[stage] for call in document["workflows"]["nightly"]["jobs"] if stage in call]
    (call,) = [call for call in calls if call["name"] == f"{stage} {CELL}"]
    job = document["jobs"][stage]

    def fill(text: str) -> str:
        return re.sub(r"<< parameters\.(\w+) >>", lambda found: str(call[found[1]]), text)

    assert call["prepare"] is False
    steps = [step["run"]["command"] for step in job["steps"] if "run" in step]
    return JobShell(
        environment={name: fill(value) for name, value in job["environment"].items()},
        scripts=tuple(steps),
    )


def read_azure(files: Mapping[str, str], stage: str) -> JobShell:
    stages = yaml.safe_load(files["azure-pipelines.yml"])["stages"]
    (own,) = [each for each in stages if each.get("displayName") == CELL]
    (job,) = [each for each in own["jobs"] if each["job"] == stage]
    return JobShell(
        environment={**own["variables"], **job.get("variables", {})},
        scripts=tuple(step["bash"] for step in job["steps"] if "bash" in step),
    )


READERS = {"gitlab": read_gitlab, "circleci": read_circleci, "azure": read_azure}


def read_result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results/cpu/result.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("system", READERS)
def test_what_was_built_is_judged(system: str, tmp_path: Path) -> None:
    files = write(tmp_path)
    status, said = READERS[system](files, "build").run(tmp_path, FIT)
    assert status == 0, said
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [FIT.name]
    status, said = READERS[system](files, "test").run(tmp_path, FIT)
    assert status == 0, said
    (package,) = read_result(tmp_path)["packages"]
    assert {entry["family"] for entry in package["entries"]} == {"linkage", "python_abi"}


@pytest.mark.parametrize("system", READERS)
def test_a_test_that_fails_fails_its_job_and_leaves_its_result(system: str, tmp_path: Path) -> None:
    files = write(tmp_path)
    assert READERS[system](files, "build").run(tmp_path, BROKEN)[0] == 0
    status, said = READERS[system](files, "test").run(tmp_path, BROKEN)
    assert status == 1, said
    assert read_result(tmp_path)["exit_code"] == 1


@pytest.mark.parametrize("system", READERS)
def test_a_build_that_leaves_nothing_fails(system: str, tmp_path: Path) -> None:
    files = write(tmp_path)
    (tmp_path / "empty").mkdir()
    shell = READERS[system](files, "build")
    status, said = shell.run(tmp_path, tmp_path / "empty" / "missing.whl")
    assert status != 0
    assert "missing.whl" in said


@pytest.mark.parametrize("system", ["circleci", "azure"])
def test_a_run_that_is_narrowed_to_other_cells_has_nothing_to_do(
    system: str, tmp_path: Path
) -> None:
    files = write(tmp_path)
    (tmp_path / "cells.toml").write_text(PROJECT.replace("{install}", "pip"), encoding="utf-8")
    for stage in ("build", "test"):
        status, said = READERS[system](files, stage).run(tmp_path, FIT, only="python=3.99")
        assert status == 0, said
        assert f"{CELL} is left out this time" in said
    assert not (tmp_path / "results/cpu/result.json").exists()
    assert not list((tmp_path / "dist").glob("*.whl"))
    (tmp_path / "dist").joinpath(".left-out").unlink()
    (tmp_path / "dist").rmdir()
    (tmp_path / ".left-out").unlink()
    status, said = READERS[system](files, "build").run(tmp_path, FIT, only=f"python={PYTHON}")
    assert status == 0, said
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [FIT.name]


def test_gitlab_writes_the_pipeline_of_the_cells_that_a_label_asks_for(tmp_path: Path) -> None:
    files = write(tmp_path)
    (tmp_path / "cells.toml").write_text(PROJECT.replace("{install}", "pip"), encoding="utf-8")
    job = yaml.safe_load(files[".gitlab/binary-checks.yml"])["choose cells"]
    labels = "bug,cells only: python=3.99"
    asked = {"BINARY_CHECKS_TIER": "pr", "CI_MERGE_REQUEST_LABELS": labels}
    status, said = JobShell(environment=asked, scripts=tuple(job["script"])).run(tmp_path, FIT)
    assert status == 0, said
    (path,) = job["artifacts"]["paths"]
    child = yaml.safe_load((tmp_path / path).read_text(encoding="utf-8"))
    jobs = [name for name in child if not name.startswith(".")]
    assert jobs == ["build demo-linux-x86_64-3.99", "test demo-linux-x86_64-3.99"]
    asked["CI_MERGE_REQUEST_LABELS"] = "cells only: python=2.7"
    status, said = JobShell(environment=asked, scripts=tuple(job["script"])).run(tmp_path, FIT)
    assert status == 4
    assert "BINARY_CHECKS_LABELS 'python=2.7' matches no cell" in said


# -- tox


def run_tox(folder: Path, arguments: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """With Pythons of this one's version found wherever it lies."""
    beside = {str(Path(sys.executable).parent), str(Path(sys.base_prefix) / "bin")}
    path = os.pathsep.join([*sorted(beside), os.environ["PATH"]])
    return subprocess.run(
        [demand_tool("tox"), "-c", "tox.toml", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=400,
    )


@pytest.mark.network
def test_tox_judges_a_cell_that_this_host_can_run_and_skips_others(tmp_path: Path) -> None:
    tag = PYTHON.replace(".", "")
    (tmp_path / "tox.toml").write_text(write(tmp_path, str(ROOT))["tox.toml"], encoding="utf-8")
    (tmp_path / "dist" / CELL).mkdir(parents=True)
    shutil.copy(FIT, tmp_path / "dist" / CELL)
    ended = run_tox(tmp_path, [])
    assert f"{FIT.name}: fit" in ended.stdout
    assert f"{CELL}: OK" in ended.stdout
    assert "demo-linux-x86_64-3.99: SKIP" in ended.stdout
    assert ended.returncode == 0
    (tmp_path / "dist" / CELL / FIT.name).unlink()
    ended = run_tox(tmp_path, ["-e", CELL])
    assert f"ERROR: dist/{CELL}/*: no file matches" in ended.stdout
    flat = tmp_path / "dist" / f"Demo-1.0-cp{tag}-cp{tag}-manylinux_2_17_x86_64.whl"
    shutil.copy(BROKEN, flat)
    ended = run_tox(tmp_path, ["-e", CELL, "--", "--binary-strict"])
    assert f"{flat.name}: unfit" in ended.stdout
    assert ended.returncode == 1
