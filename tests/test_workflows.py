"""What GitHub and pre-commit run of this repository: valid, pinned, safe from inputs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fixtures.samples import FOLDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
PINS = ROOT / ".ci" / "requirements"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
HEALTHY = FOLDER / "wheels" / "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
BROKEN = FOLDER / "wheels" / "demo_broken-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
pytestmark = pytest.mark.skipif(
    not WORKFLOWS, reason="an sdist has no .github: its tests come from a checkout"
)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def tool(name: str) -> str:
    """The program, installed beside this Python or anywhere."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (nox -s workflows)")
    return found


@pytest.mark.parametrize(
    ("schema", "paths"),
    [("vendor.github-workflows", WORKFLOWS), ("vendor.github-actions", [ACTION])],
)
def test_they_follow_their_schema(schema: str, paths: list[Path]) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", schema, *map(str, paths)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_zizmor_finds_nothing() -> None:
    command = [tool("zizmor"), "--offline", "--quiet", *map(str, (*WORKFLOWS, ACTION))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit_and_says_of_which_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert used
    for each in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_a_release_may_do_little_and_is_built_with_pinned_tools_where_nothing_else_runs() -> None:
    release = read(ROOT / ".github" / "workflows" / "release.yml")
    assert release["permissions"] == {}
    assert {name: job["permissions"] for name, job in release["jobs"].items()} == {
        "build": {"contents": "read"},
        "check": {"contents": "read"},
        "attest": {"attestations": "write", "id-token": "write"},
        "publish": {"id-token": "write"},
    }
    jobs = release["jobs"]
    assert jobs["attest"]["needs"] == ["build", "check"]
    assert jobs["publish"]["needs"] == ["attest"]
    installing, building = (step["run"] for step in jobs["build"]["steps"] if "run" in step)
    assert installing == (
        "python -m pip install --require-hashes --only-binary :all: "
        "--requirement .ci/requirements/build.txt"
    )
    assert building == "python -m build --no-isolation"
    assert "upload-artifact" in jobs["build"]["steps"][-1]["uses"]
    for name in ("check", "attest", "publish"):  # what they take is what that job left
        uses = [step.get("uses", "") for step in jobs[name]["steps"]]
        assert any("download-artifact" in each for each in uses)
        assert not any("upload-artifact" in each for each in uses)


@pytest.mark.parametrize("name", ["release.yml", "action.yml"])
def test_what_is_installed_from_an_index_is_pinned_by_its_hash(name: str) -> None:
    """What is not, is in the checkout or was built from it, and brings nothing along."""
    path = ACTION if name == "action.yml" else ROOT / ".github" / "workflows" / name
    lines = [line for line in path.read_text("utf-8").splitlines() if "pip install" in line]
    assert len(lines) >= 2
    for line in lines:
        assert ("--require-hashes" in line) != ("--no-deps" in line), line
    text = path.read_text("utf-8")
    for found in re.findall(r"\.ci/requirements/\w+\.txt", text):
        assert (ROOT / found).is_file()


@pytest.mark.parametrize("name", ["build", "check", "action"])
def test_requirements_are_pinned_and_are_what_this_checkout_requires(name: str) -> None:
    """Else: `nox -s pins`."""
    text = (PINS / f"{name}.txt").read_text("utf-8")
    assert "://" not in text
    blocks = re.findall(r"^(\S.*)\n((?:    --hash=.*\n)*)", text.replace(" \\\n", "\n"), re.M)
    pinned = {}
    for line, hashes in blocks:
        if not line.startswith("#"):
            requirement = Requirement(line)
            assert re.fullmatch(r"(    --hash=sha256:[0-9a-f]{64}\n)+", hashes), line
            (version,) = requirement.specifier
            assert version.operator == "=="
            pinned[requirement.name] = version.version
    for wanted in list_wanted(name):
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted


def list_wanted(name: str) -> list[Requirement]:
    """What the file is compiled from."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (PINS / f"{name}.in").read_text("utf-8").splitlines()
    found = [line for line in lines if not line.startswith("#")]
    if name != "build":
        found += table["project"]["dependencies"]
    if name == "action":
        found += table["build-system"]["requires"]
        for extra in ("fast", "report"):
            found += table["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in found]


def test_every_python_is_tried_on_every_system() -> None:
    """Of those that the sessions of nox have."""
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    named = re.search(r"PYTHONS = \[(.*)\]", (ROOT / "noxfile.py").read_text("utf-8"))
    assert named
    assert jobs["tests"]["strategy"]["matrix"] == {
        "system": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": re.findall(r"\d\.\d+", named[1]),
    }


def test_no_script_of_a_workflow_or_the_action_has_an_expression_in_it() -> None:
    """An input would be run."""
    jobs = [job["steps"] for path in WORKFLOWS for job in read(path)["jobs"].values()]
    of_action = read(ACTION)["runs"]["steps"]
    assert sum("run" in step for step in of_action) == 2
    assert [] == [
        s["run"] for steps in (*jobs, of_action) for s in steps if "${{" in s.get("run", "")
    ]


def test_every_session_of_nox_is_run_by_a_workflow_unless_it_needs_a_gpu() -> None:
    noxfile = (ROOT / "noxfile.py").read_text("utf-8")
    sessions = re.findall(r'^@nox\.session(?:\(.*?(?:name="(.+)")?\))?\ndef (\w+)', noxfile, re.M)
    jobs = read(ROOT / ".github" / "workflows" / "scheduled.yml")["jobs"]
    run = {*jobs["session"]["strategy"]["matrix"]["session"]}
    run |= {*jobs["files"]["strategy"]["matrix"]["session"]}
    for path in (*WORKFLOWS, ROOT / ".ci" / "run"):
        run |= {*re.findall(r"--session \"?([a-z]+(?:-[a-z]+)*)", path.read_text("utf-8"))}
    assert {name or function for name, function in sessions} - run == {"gpu-stage", "gpu-run"}
    assert run <= {name or function for name, function in sessions}


def run_check(folder: Path, packages: str, options: str = "--static") -> tuple[int, str, Any]:
    """Run the action's script for a Python in which binary_checks is installed already."""
    (script,) = (step["run"] for step in read(ACTION)["runs"]["steps"] if step.get("id") == "check")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    program = bin_folder / "binary-checks"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binary_checks "$@"\n')
    program.chmod(0o755)
    given = {
        "BIN": str(bin_folder),
        "RUNNER_TEMP": str(folder / "a b"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "PACKAGES": packages,
        "OPTIONS": options,
    }
    (folder / "output").touch()
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    ended = subprocess.run(
        command,
        env={**os.environ, **given},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
    return ended.returncode, ended.stdout, outputs


@pytest.mark.skipif(os.name == "nt", reason="bash is not Windows' own")
def test_the_action_judges_packages_and_says_where_its_reports_are(tmp_path: Path) -> None:
    (tmp_path / "dist dir").mkdir()
    for wheel in (HEALTHY, BROKEN):
        shutil.copy(wheel, tmp_path / "dist dir")
    status, shown, outputs = run_check(tmp_path, "dist dir/*.whl\n", "--static\n-n\n0")
    assert status == 1
    assert "missing-library" in shown
    assert outputs.keys() == {"sarif", "html", "json"}
    assert all(Path(path).stat().st_size for path in outputs.values())


@pytest.mark.skipif(os.name == "nt", reason="bash is not Windows' own")
def test_what_an_input_says_is_never_run(tmp_path: Path) -> None:
    evil = '$(touch ran)\n`touch ran`\n"; touch ran; "\n'
    status, _, outputs = run_check(tmp_path, evil)
    assert status == 4
    assert not (tmp_path / "ran").exists()
    assert "sarif" not in outputs or Path(outputs["sarif"]).exists()


def test_the_hook_takes_packages_and_judges_them() -> None:
    (hook,) = read(HOOKS)
    names = ("dist/x-1.0-py3-none-any.whl", "linux-64/x-1.0-0.conda", "linux-64/x-1.0-0.tar.bz2")
    others = ("x.py", "x.whl.txt", "x.tar.gz")
    assert [name for name in (*names, *others) if re.search(hook["files"], name)] == [*names]
    program, *options = hook["entry"].split()
    assert program == "binary-checks"
    for wheel, status in ((HEALTHY, 0), (BROKEN, 1)):
        command = [sys.executable, "-m", "binary_checks", *options, str(wheel)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == status
