"""A project's own jobs, in addition to its cells or for some of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

from binary_checks.errors import ProfileError  # noqa: E402
from binary_checks.fleet.cells import read_cells  # noqa: E402
from binary_checks.fleet.ci.generated_files import write_files  # noqa: E402
from binary_checks.fleet.ci.github_workflows import (  # noqa: E402
    format_jobs,
    list_rows_of_jobs,
)
from binary_checks.fleet.ci.pipeline import (  # noqa: E402
    CiRun,
    choose_jobs,
    make_pipeline,
)
from tests.fleet.ci.ci_files import read_outputs  # noqa: E402

CELLS = """\
[[cells]]
project = "own"
system = ["linux-x86_64", "windows-amd64"]
python = ["3.12", "3.13"]
[ci]
systems = ["github"]
install = "."
[ci.actions]
"actions/cache" = { commit = "5a3ec84eff668545956fd18022155c47e93e2684", tag = "v4.2.3" }
[ci.workflows.ci]
branches = ["main"]
pull_requests = true
"""
JOB = """\
[[ci.jobs]]
workflow = "ci"
name = "tests"
when = "python=3.12"
matrix = { pytest = ["8", "9"] }
steps = ['python -m pip install "pytest==$JOB_PYTEST"', "pytest"]
"""
Write = Callable[[str], dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """The jobs of ci.yml."""

    def write(jobs: str) -> dict[str, Any]:
        path = tmp_path / "cells.toml"
        text = CELLS.replace("github", "tox") if jobs.endswith("#tox") else CELLS
        path.write_text(text + jobs, encoding="utf-8")
        files = write_files(make_pipeline(read_cells(path), tmp_path)).files
        assert [*files] == [".github/workflows/ci.yml"]
        found: dict[str, Any] = yaml.safe_load(files[".github/workflows/ci.yml"])["jobs"]
        return found

    return write


def test_a_job_for_cells_is_multiplied_with_its_own_axes_at_run_time(
    write: Write, tmp_path: Path
) -> None:
    jobs = write(JOB)
    job = jobs["tests"]
    assert job["needs"] == ["cells"]
    matrix = job["strategy"]["matrix"]
    assert matrix == {"include": "${{ fromJSON(needs.cells.outputs.rows_ci_tests) }}"}
    assert jobs["cells"]["outputs"] == {"rows_ci_tests": "${{ steps.plan.outputs.rows_ci_tests }}"}
    plan = jobs["cells"]["steps"][-1]["run"]
    assert plan == 'binary-checks cells --ci github >> "$GITHUB_OUTPUT"'
    pipeline = make_pipeline(read_cells(tmp_path / "cells.toml"), tmp_path)
    outputs = list_rows_of_jobs(pipeline)
    assert outputs["rows_ci_tests"] == [
        {"runner": ["ubuntu-24.04"], "python": "3.12", "pytest": "8"},
        {"runner": ["ubuntu-24.04"], "python": "3.12", "pytest": "9"},
        {"runner": ["windows-2025"], "python": "3.12", "pytest": "8"},
        {"runner": ["windows-2025"], "python": "3.12", "pytest": "9"},
    ]
    assert job["env"] == {
        "CELL_PYTHON": "${{ matrix.python }}",
        "JOB_PYTEST": "${{ matrix.pytest }}",
    }
    assert [step.get("run") for step in job["steps"]][2:] == [
        'python -m pip install "pytest==$JOB_PYTEST"',
        "pytest",
    ]


def test_rows_of_a_job_take_the_name_of_no_other(tmp_path: Path) -> None:
    text = "[ci.workflows.%s]\nbranches = ['main']\n"
    also = JOB.replace('"ci"', '"smoke"').replace('"tests"', '"gpu"')
    (tmp_path / "cells.toml").write_text(CELLS + text % "smoke" + also, encoding="utf-8")
    pipeline = make_pipeline(read_cells(tmp_path / "cells.toml"), tmp_path)
    jobs = choose_jobs(pipeline, "github", [], CiRun(event="nightly", tier="nightly"))
    outputs = read_outputs(format_jobs(jobs))
    assert outputs["smoke_gpu"] == "[]"
    assert len(json.loads(outputs["rows_smoke_gpu"])) == 4


def test_a_job_may_read_and_nothing_else_unless_it_says_so(write: Write) -> None:
    jobs = write(
        JOB
        + """\
[[ci.jobs]]
workflow = "ci"
name = "publish"
needs = ["tests"]
checkout = false
permissions = { id-token = "write" }
environment = { name = "pypi" }
takes = ["dist"]
keeps = ["log"]
steps = [
  { uses = "actions/cache", with = { path = "x", key = "y" } },
  { run = "true", env = { A = "b" } },
]
"""
    )
    assert jobs["tests"]["permissions"] == {"contents": "read"}
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == {"name": "pypi"}
    assert publish["needs"] == ["tests"]
    download, cache, run, upload = publish["steps"]
    assert download["with"] == {"name": "dist", "path": "dist"}
    assert cache["uses"] == "actions/cache@5a3ec84eff668545956fd18022155c47e93e2684"
    assert run == {"env": {"A": "b"}, "run": "true"}
    assert upload["if"] == "always()"


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ("", "ci.workflows.ci: it has no [[ci.jobs]]"),
        (
            JOB + "#tox",
            "ci: jobs: only github supports them, and 'systems' does not name it",
        ),
        (
            JOB.replace('workflow = "ci"', 'workflow = "cj"'),
            "toml:14: ci.jobs[0]: workflow: unknown workflow 'cj'",
        ),
        (JOB.replace("matrix", "martix"), "toml:17: ci.jobs[0]: unknown key 'martix'; did you"),
        (JOB + JOB, "ci.jobs[1] (line 19): ci has a job tests already"),
        (JOB + 'needs = ["test"]\n', "needs: unknown job before it: 'test'"),
        (JOB + 'runner = "x"\n', "runner and 'when' exclude each other: each cell has its own"),
        (JOB.replace("python=3.12", "python=3.9"), "when = 'python=3.9' matches no cell"),
        (
            JOB.replace('"pytest"]', '"echo ${{ github.actor }}"]'),
            "expressions are not allowed in scripts",
        ),
        (
            JOB.replace('"pytest"]', '{ uses = "actions/cahce" }]'),
            "unknown action; pin it in [ci.actions]: 'actions/cahce'; did you mean 'actions/cache'",
        ),
        (
            JOB.replace('"pytest"]', '{ run = "x", uses = "y" }]'),
            "steps[1]: give either run or uses",
        ),
        (JOB.replace("steps = [", "stepz = ["), "unknown key 'stepz'; did you mean 'steps'?"),
        (JOB.replace('"tests"', '"Tests; x"'), "name: 'Tests; x' is not a valid name for a job"),
        (
            JOB.replace('"tests"', '"cells"'),
            "name: cells is the name of the job that lists the cells",
        ),
        (JOB.replace("{ pytest =", "{ PATH ="), "matrix: 'PATH' is not a valid name for an axis"),
        (JOB + "timeout = 1e9\n", "is not between 0 and 6 hours"),
        (
            JOB + '[ci.workflows.binary-checks-x]\ntags = ["v*"]\n',
            "is not a valid name for a workflow",
        ),
        (JOB + "[ci.workflows.idle]\n", "ci.workflows.idle: no event starts it"),
    ],
)
def test_a_mistaken_job_is_one_line(write: Write, jobs: str, said: str) -> None:
    with pytest.raises(ProfileError) as raised:
        write(jobs)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
