"""GitHub Actions: valid, safe by zizmor, a chain for each cell, split at the limit of a matrix."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.ci.ci_files import PROJECT, demand_tool

yaml = pytest.importorskip("yaml")

from binary_checks.fleet.cells.cells_file import read_cells  # noqa: E402
from binary_checks.fleet.ci.generators import write_files  # noqa: E402
from binary_checks.fleet.ci.making_pipeline import make_pipeline  # noqa: E402

WATCHED = """\
[[cells]]
project = "numpy"
system = "linux-x86_64"
python = ["3.12", "3.13"]
[ci]
systems = ["github"]
store = "s3://results/numpy"
install = "binary-checks"
"""
IMAGE = """\
[[runners]]
when = "system=linux"
github = { labels = ["big"], image = "image:{python}" }
"""
FOLDER = ".github/workflows"
Write = Callable[..., dict[str, str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str = PROJECT) -> dict[str, str]:
        path = tmp_path / "cells.toml"
        path.write_text(text, encoding="utf-8")
        return write_files(make_pipeline(read_cells(path), tmp_path))

    return write


def many(count: int) -> str:
    pythons = ", ".join(f'"3.{minor}"' for minor in range(10, 90))
    projects = ", ".join(f'"p{number}"' for number in range(-(-count // 80)))
    left = 80 * -(-count // 80) - count
    gone = "".join(
        f'[[leave_out]]\nwhen = "project=p0 python=3.{minor}"\nreason = "few"\n'
        for minor in range(10, 10 + left)
    )
    return (
        f'[[cells]]\nproject = [{projects}]\npython = [{pythons}]\nsystem = "linux-x86_64"\n{gone}'
        '[ci]\nsystems = ["github"]\nbuild = ["make"]\ninstall = "binary-checks"\n'
    )


def jobs_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def steps_of(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, job in jobs_of(text).items():
        for step in job.get("steps", ()):
            yield name, step


@pytest.mark.parametrize("text", [PROJECT, WATCHED], ids=["built", "watched"])
def test_github_and_zizmor_accept_the_files(write: Write, tmp_path: Path, text: str) -> None:
    paths = []
    for path, content in write(text).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, encoding="utf-8")
        paths.append(str(tmp_path / path))
    schema = [demand_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    for command in (schema, [demand_tool("zizmor"), "--offline", "--quiet"]):
        ended = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout


NO_GPU = """\
[[cells]]
project = "numpy"
system = "linux-x86_64"
python = ["3.12", "3.13"]
[ci]
systems = ["github"]
build = ["make"]
install = "binary-checks"
store = "s3://results/numpy"
built = "test"
"""


@pytest.mark.parametrize(
    "text", [PROJECT, WATCHED, NO_GPU, PROJECT + IMAGE], ids=["gpu", "watched", "no-gpu", "image"]
)
def test_every_name_in_an_expression_is_declared(write: Write, text: str) -> None:
    """Of inputs, secrets, jobs, steps and the columns of matrices, in all files."""
    for path, content in write(text).items():
        document = yaml.safe_load(content)
        events = document["on"]
        by_hand = events.get("workflow_dispatch") or {}
        given = {**events.get("workflow_call", {}), **by_hand}
        for name, job in document["jobs"].items():
            used = re.findall(
                r"(inputs|needs|steps|matrix)\.([\w-]+)(?:\.outputs\.([\w-]+))?", json.dumps(job)
            )
            include = job.get("strategy", {}).get("matrix", {}).get("include", ())
            columns = set() if isinstance(include, str) else {key for row in include for key in row}
            needed = {
                *([job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", ()))
            }
            for kind, used_name, output in used:
                where = f"{path}: {name}: {kind}.{used_name}"
                if kind == "inputs":
                    assert used_name in given["inputs"], where
                elif kind == "needs":
                    assert used_name in needed & document["jobs"].keys(), where
                    if output:
                        assert output in document["jobs"][used_name]["outputs"], where
                elif kind == "steps":
                    assert used_name in {step.get("id") for step in job["steps"]}, where
                elif columns:
                    assert used_name in columns, where
            if "uses" in job:
                called = yaml.safe_load(write(text)[f"{FOLDER}/binary-checks-cell.yml"])
                wanted = called["on"]["workflow_call"]
                assert job["with"].keys() == wanted["inputs"].keys()
                assert job.get("secrets", {}).keys() == wanted.get("secrets", {}).keys()


def test_cells_run_in_the_image_of_their_runner(write: Write) -> None:
    files = write(PROJECT + IMAGE)
    chain = jobs_of(files[f"{FOLDER}/binary-checks-cell.yml"])
    assert chain["test"]["container"] == "${{ inputs.container }}"
    assert chain["gpu"]["container"] == "${{ inputs.gpu_container }}"
    assert "container" not in chain["publish"]
    night = jobs_of(files[f"{FOLDER}/binary-checks-nightly.yml"])
    rows = night["cells"]["strategy"]["matrix"]["include"]
    assert {row["cell_system"]: row["container"] for row in rows if row["python"] == "3.12"} == {
        "linux": "image:3.12",
        "macos": "",
        "windows": "",
    }
    smoke = night["smoke"]["strategy"]["matrix"]["include"]
    assert {row["container"] for row in smoke} == {"image:3.11", "image:3.12", ""}


def test_without_a_gpu_there_is_no_stage_for_one(write: Write) -> None:
    files = write(NO_GPU)
    assert [*jobs_of(files[f"{FOLDER}/binary-checks-cell.yml"])] == ["build", "test", "publish"]
    assert "gpu" not in "".join(files.values())


def test_the_gpu_stage_waits_for_its_own_cell_alone(write: Write) -> None:
    files = write()
    chain = jobs_of(files[f"{FOLDER}/binary-checks-cell.yml"])
    assert chain["gpu"]["needs"] == ["build", "test"]
    assert chain["gpu"]["if"] == "${{ inputs.gpu_runner != 'null' }}"
    assert chain["publish"]["if"].startswith("${{ !cancelled() && needs.build.result == 'success'")
    for tier in ("pr", "merge"):
        jobs = jobs_of(files[f"{FOLDER}/binary-checks-{tier}.yml"])
        assert {name: job.get("needs") for name, job in jobs.items()} == {
            "choose": None,
            "cells": "choose",
            "further": "choose",
        }


def test_the_night_goes_on_when_cells_are_red(write: Write) -> None:
    jobs = jobs_of(write()[f"{FOLDER}/binary-checks-nightly.yml"])
    assert [*jobs] == ["choose", "cells", "further", "plan", "smoke", "smoke-gpu", "collect"]
    for name in ("plan", "smoke", "smoke-gpu", "collect"):
        assert jobs[name]["if"].startswith("${{ !cancelled()")
    assert jobs["smoke-gpu"]["needs"] == ["plan", "smoke"]


def test_a_cell_is_a_line(write: Write) -> None:
    text = write()[f"{FOLDER}/binary-checks-nightly.yml"]
    lines = [line for line in text.splitlines() if line.strip().startswith("- {cell: ")]
    assert len(lines) == 10
    (gpu,) = (line for line in lines if "3.12-cu126" in line and "gpu_runner" in line)
    assert gpu.strip() == (
        "- {cell: torch-linux-x86_64-3.12-cu126, cell_project: torch, cell_system: linux, "
        "cell_architecture: x86_64, cell_python: '3.12', cell_variant: cu126, "
        'cell_options: "--binary-profile\\nprofiles/torch.toml\\n--binary-with-requirements", '
        'cell_gpu_options: "--binary-profile\\nprofiles/torch.toml\\n--binary-with-requirements'
        '\\n-m\\ngpu\\n--binary-require\\ngpu", '
        "python: '3.12', minutes: 20, runner: [ubuntu-24.04], "
        "gpu_runner: [self-hosted, gpu-cu126]}"
    )


@pytest.mark.parametrize(("count", "sizes"), [(256, [256]), (257, [256, 1]), (600, [256, 256, 88])])
def test_a_matrix_is_split_where_github_ends_it(write: Write, count: int, sizes: list[int]) -> None:
    jobs = jobs_of(write(many(count))[f"{FOLDER}/binary-checks-nightly.yml"])
    matrices = {
        name: len(job["strategy"]["matrix"]["include"])
        for name, job in jobs.items()
        if name.startswith("cells")
    }
    assert [*matrices.values()] == sizes
    assert [*matrices] == (
        ["cells"] if len(sizes) == 1 else [f"cells-{n + 1}" for n in range(len(sizes))]
    )


def test_every_action_stands_beside_its_tag(write: Write) -> None:
    used = [each for text in write().values() for each in re.findall(r"uses: (.*)", text)]
    actions = [each for each in used if not each.startswith("$/")]
    assert len(actions) > 20
    for each in actions:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_a_project_pins_other_commits(write: Write) -> None:
    own = f'[ci.actions]\n"actions/checkout" = {{ commit = "{"ab" * 20}", tag = "v9.0.0" }}\n'
    text = write(PROJECT + own)[f"{FOLDER}/binary-checks-cell.yml"]
    assert f"uses: actions/checkout@{'ab' * 20} # v9.0.0\n" in text
    assert "3d3c42e5aac5ba805825da76410c181273ba90b1" not in text


def test_secrets_reach_the_steps_that_read_them_and_no_others(write: Write) -> None:
    files = write()
    seen = {
        (job, step["name"])
        for path in ("cell", "nightly")
        for job, step in steps_of(files[f"{FOLDER}/binary-checks-{path}.yml"])
        if "secrets." in json.dumps(step)
    }
    assert seen == {
        ("publish", "Keep what was built"),
        ("publish", "Keep what the tests found"),
        ("publish", "Publish what the policy lets through"),
        ("plan", "Plan the night"),
        ("smoke", "Judge what is published"),
        ("smoke-gpu", "Judge what is published on a GPU"),
        ("collect", "Make the tables of the night"),
        ("collect", "Write the pages"),
        ("collect", "Say how the night ended"),
    }
    signing = [
        step["name"]
        for _, step in steps_of(files[f"{FOLDER}/binary-checks-cell.yml"])
        if "SIGNING_KEY" in step.get("env", {})
    ]
    assert signing == ["Keep what the tests found"]


def test_a_pull_request_publishes_nothing(write: Write) -> None:
    chain = jobs_of(write()[f"{FOLDER}/binary-checks-cell.yml"])
    assert "github.event_name != 'pull_request'" in chain["publish"]["if"]
    assert chain["publish"]["environment"] == "publish"


def test_jobs_may_read_and_nothing_else(write: Write) -> None:
    for text in write().values():
        assert yaml.safe_load(text)["permissions"] == {}
        for job in jobs_of(text).values():
            assert job["permissions"] == {"contents": "read"}


def test_checkouts_keep_no_credentials_and_jobs_end(write: Write) -> None:
    for text in write().values():
        for _, step in steps_of(text):
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"] == {"persist-credentials": False}
        for job in jobs_of(text).values():
            assert "timeout-minutes" in job or "uses" in job


def test_no_script_has_an_expression(write: Write) -> None:
    scripts = [
        step["run"] for text in write().values() for _, step in steps_of(text) if "run" in step
    ]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_an_option_full_of_shell_and_yaml_stays_data(write: Write) -> None:
    evil = "--binary-channel=$(touch ran)`x`';${HOME}#: - {a}"
    text = write(PROJECT.replace("--binary-with-requirements", evil))
    include = jobs_of(text[f"{FOLDER}/binary-checks-nightly.yml"])["cells"]["strategy"]["matrix"]
    assert evil in include["include"][0]["cell_options"]


def test_what_is_not_built_has_a_night_alone(write: Write) -> None:
    files = write(WATCHED)
    assert [*files] == [f"{FOLDER}/binary-checks-nightly.yml"]
    assert [*jobs_of(files[f"{FOLDER}/binary-checks-nightly.yml"])] == ["plan", "smoke", "collect"]


def test_an_attempt_replaces_what_the_one_before_it_left_and_pythons_may_be_previews(
    write: Write,
) -> None:
    steps = [step for text in write().values() for _, step in steps_of(text)]
    kept = [step["with"] for step in steps if "upload-artifact" in step.get("uses", "")]
    pythons = [step["with"] for step in steps if "setup-python" in step.get("uses", "")]
    assert {given["overwrite"] for given in kept} == {True}
    assert {given["allow-prereleases"] for given in pythons} == {True}
