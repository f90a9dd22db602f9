"""Jobs computed at run time: own chains, right machines, and within the systems' limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci import circleci_workflows, gitlab_pipelines
from binary_checks.fleet.ci.job_scripts import identify
from binary_checks.fleet.ci.pipeline import find_run
from tests.fleet.ci.ci_files import (
    PROJECT,
    Json,
    demand_valid,
    format_jobs,
    load,
    make,
    multiply,
    read_outputs,
    write,
)

GPU_CELL = "torch-linux-x86_64-3.12-cu126"
CPU_CELL = "torch-linux-x86_64-3.12-cpu"
WINDOWS = '"linux-x86_64", "macos-arm64", "windows-amd64"'


def github_rows(text: str) -> list[Json]:
    chunks = json.loads(read_outputs(text)["chunks"])
    return [row for chunk in chunks for row in json.loads(chunk)]


def gitlab_jobs(text: str) -> dict[str, Json]:
    """Those of cells."""
    stages = {"build", "test", "gpu", "publish"}
    jobs = {name: job for name, job in load(text).items() if name.partition(" ")[0] in stages}
    return {name: job for name, job in jobs.items() if " " in name}


def circleci_calls(text: str, workflow: str = "nightly") -> dict[str, Json]:
    jobs = load(text)["workflows"][workflow]["jobs"]
    return {call["name"]: {**call, "key": key} for job in jobs for key, call in job.items()}


def list_needs(job: Json) -> list[str]:
    return [each["job"] for each in job.get("needs", ())]


# -- GitHub


def test_the_row_of_a_cell_says_where_it_runs() -> None:
    rows = {row["cell"]: row for row in github_rows(format_jobs("github", make()))}
    assert rows[GPU_CELL] == {
        "cell": GPU_CELL,
        "python": "3.12",
        "minutes": 20,
        "runner": ["ubuntu-24.04"],
        "container": "",
        "gpu": True,
        "gpu_runner": ["self-hosted", "gpu-cu126"],
        "gpu_container": "",
    }
    assert not rows[CPU_CELL]["gpu"]


@pytest.mark.parametrize(
    ("count", "sizes"), [(256, [256]), (257, [256, 1]), (305, [256, 49]), (600, [256, 256, 88])]
)
def test_a_matrix_is_split_where_github_ends_it(count: int, sizes: list[int]) -> None:
    text = format_jobs("github", make(multiply(count)))
    chunks = [json.loads(each) for each in json.loads(read_outputs(text)["chunks"])]
    assert [len(chunk) for chunk in chunks] == sizes
    assert len(text) < 1_000_000  # bytes of the outputs of a job


def test_the_smoke_has_a_row_for_each_group_and_a_second_one_on_its_gpu() -> None:
    outputs = read_outputs(format_jobs("github", make()))
    smoke, gpu = json.loads(outputs["smoke"]), json.loads(outputs["smoke_gpu"])
    assert {each["name"] for each in gpu} < {each["name"] for each in smoke}
    cells = [cell for each in smoke for cell in each["cell"].split()]
    assert sorted(cells) == sorted(cell.id for cell in make().cells)
    assert json.loads(read_outputs(format_jobs("github", make(), "pr"))["smoke"]) == []


def test_more_groups_than_a_matrix_may_have_are_one_line() -> None:
    text = multiply(300).replace("[ci]\n", "[ci]\nsmoke_cells = 1\n")
    with pytest.raises(ProfileError, match="300 jobs of a night, but github allows 256"):
        format_jobs("github", make(text))


# -- each cell waits for itself


def test_a_job_of_gitlab_needs_jobs_of_its_own_cell_alone() -> None:
    pipeline = make()
    jobs = gitlab_jobs(format_jobs("gitlab", pipeline))
    assert len(jobs) == 3 * len(pipeline.cells) + 2
    for name, job in jobs.items():
        assert {need.partition(" ")[2] for need in list_needs(job)} <= {name.partition(" ")[2]}
        assert {*list_needs(job)} <= {*jobs}
    assert list_needs(jobs[f"gpu {GPU_CELL}"]) == [f"build {GPU_CELL}", f"test {GPU_CELL}"]
    assert list_needs(jobs[f"publish {CPU_CELL}"]) == [f"build {CPU_CELL}", f"test {CPU_CELL}"]


def test_a_job_of_circleci_requires_jobs_of_its_own_cell_alone() -> None:
    calls = circleci_calls(format_jobs("circleci", make()))
    for name, call in calls.items():
        needed = [
            each if isinstance(each, str) else next(iter(each)) for each in call.get("requires", ())
        ]
        assert {need.partition(" ")[2] for need in needed} <= {name.partition(" ")[2]}
        assert {*needed} <= {*calls}
    assert calls[f"publish {GPU_CELL}"]["requires"] == [
        f"build {GPU_CELL}",
        {f"test {GPU_CELL}": "terminal"},
        {f"gpu {GPU_CELL}": "terminal"},
    ]


def test_a_group_on_a_gpu_waits_for_its_own_group_on_the_cpu_alone() -> None:
    document = load(format_jobs("gitlab", make()))
    waiting = {name: job["needs"] for name, job in document.items() if name.startswith("smoke-gpu")}
    assert waiting == {name: [name.replace("-gpu", "")] for name in waiting}
    assert waiting
    calls = circleci_calls(format_jobs("circleci", make()), "night")
    waiting = {name: call["requires"] for name, call in calls.items() if "gpu" in name}
    assert waiting == {name: [{name.replace("-gpu", ""): "terminal"}] for name in waiting}


# -- machines


def test_a_gpu_machine_is_given_to_gpu_stages_alone() -> None:
    pipeline = make()
    jobs = gitlab_jobs(format_jobs("gitlab", pipeline))
    assert {name.split()[0] for name, job in jobs.items() if job.get("tags") == ["gpu"]} == {"gpu"}
    text = format_jobs("circleci", pipeline)
    machines = {
        name: load(text)["jobs"][call["key"]] for name, call in circleci_calls(text).items()
    }
    owned = {name.split()[0] for name, job in machines.items() if "cuda" in json.dumps(job)}
    assert owned == {"gpu"}
    outputs = read_outputs(format_jobs("azure", pipeline))
    assert {row["POOL"] for row in json.loads(outputs["gpu"]).values()} == {"gpus"}
    assert "gpus" not in outputs["cells"]


def test_a_free_threaded_python_is_fetched_where_an_image_has_another_one() -> None:
    pipeline = make(PROJECT.replace('"3.12"', '"3.14t"'))
    document = load(format_jobs("gitlab", pipeline))
    threaded = document["test torch-linux-x86_64-3.14t-cpu"]
    assert threaded["image"] == "python:3.13"
    assert threaded["variables"]["JOB_PYTHON"] == "3.14t"
    assert threaded["extends"] == ".test-machine"
    assert document["test torch-linux-x86_64-3.11-cpu"]["extends"] == ".test"
    text = format_jobs("circleci", pipeline)
    calls = circleci_calls(text)
    for cell, made in (
        ("torch-linux-x86_64-3.14t-cpu", True),
        ("torch-linux-x86_64-3.11-cpu", False),
    ):
        job = load(text)["jobs"][calls[f"test {cell}"]["key"]]
        assert ("uv venv" in json.dumps(job)) is made
    rows = json.loads(read_outputs(format_jobs("azure", pipeline))["cells"])
    pythons = {row["CELL"]: (row["JOB_PYTHON"], row["FREE_THREADED"]) for row in rows.values()}
    assert pythons["torch-linux-x86_64-3.14t-cpu"] == ("3.13", "3.14t")
    assert pythons["torch-linux-x86_64-3.11-cpu"] == ("3.11", "")


def test_machines_of_windows_run_the_same_shell() -> None:
    script = load(format_jobs("gitlab", make()))[".test-windows"]["script"]
    assert all("Git/bin/bash.exe" in step and "exit $LASTEXITCODE" in step for step in script)
    text = format_jobs("circleci", make())
    call = circleci_calls(text)["test torch-windows-amd64-3.12-cpu"]
    assert load(text)["jobs"][call["key"]]["shell"] == "bash.exe -eo pipefail"


def test_demands_of_azure_are_variables_and_others_are_met_by_every_agent() -> None:
    text = PROJECT.replace(
        'azure = { pool = "gpus" }', 'azure = { pool = "gpus", labels = ["a", "b"] }'
    )
    stages = write("azure", make(text))[".azure/binary-checks-tests.yml"]
    assert "demands: [$(DEMAND_0), $(DEMAND_1)]" in stages
    outputs = read_outputs(format_jobs("azure", make(text)))
    (row, *_) = json.loads(outputs["gpu"]).values()
    assert (row["DEMAND_0"], row["DEMAND_1"]) == ("a", "b")
    (row, *_) = json.loads(outputs["cells"]).values()
    assert (row["DEMAND_0"], row["DEMAND_1"]) == ("Agent.Version", "Agent.Version")


# -- secrets and publishing


def test_secrets_are_hidden_from_what_does_not_read_them() -> None:
    document = load(format_jobs("gitlab", make()))
    hidden = "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY SIGNING_KEY\n"
    for base in (".build", ".test", ".gpu"):
        assert all(hidden in step for step in document[base]["script"])
    publish = document[".publish"]
    assert publish["environment"] == {"name": "publish", "action": "access"}
    assert [hidden in step for step in publish["script"]] == [True, False]
    smoke = document["smoke 1"]["script"]
    assert all(hidden in step for step in smoke[:-1])
    assert "unset SIGNING_KEY\nbinary-checks ci stage smoke\n" in smoke[-1]
    text = format_jobs("circleci", make())
    job = load(text)["jobs"]["smoke-1"]
    runs = [step["run"] for step in job["steps"] if "run" in step]
    scripts = [run["command"] for run in runs if isinstance(run, dict)]
    assert [hidden in each for each in scripts] == [*[True] * (len(scripts) - 1), False]
    assert any("uv python install" in each for each in scripts[:-1])
    calls = circleci_calls(text)
    assert {name.split()[0] for name, call in calls.items() if "context" in call} == {"publish"}


def test_variables_of_every_job_are_there_as_they_are() -> None:
    pipeline = make(PROJECT.replace('"eu-central-1"', '"$HOME"'))
    shared = load(format_jobs("gitlab", pipeline))["variables"]
    assert shared == {"AWS_REGION": {"value": "$HOME", "expand": False}}
    jobs = load(format_jobs("circleci", pipeline))["jobs"].values()
    assert {job["environment"]["AWS_REGION"] for job in jobs} == {"$HOME"}


def test_nothing_is_published_for_a_pull_request() -> None:
    pipeline = make()
    assert not [n for n in gitlab_jobs(format_jobs("gitlab", pipeline, "pr")) if "publish" in n]
    text = format_jobs("circleci", pipeline, "pr")
    assert not [name for name in circleci_calls(text, "pr") if "publish" in name]


def test_the_parts_of_a_merge_request_publish_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitlab_pipelines, "MOST_JOBS", 4)
    document = load(format_jobs("gitlab", make(), "pr"))
    plan = document["plan cells 1"]["variables"]
    assert plan["BINARY_CHECKS_EVENT"] == "pr"
    asked = {"CI_PIPELINE_SOURCE": "parent_pipeline", **plan}
    assert find_run("gitlab", asked, "main").event == "pr"


def test_a_build_of_gitlab_that_failed_leaves_nothing_to_publish() -> None:
    document = load(format_jobs("gitlab", make()))
    assert document[".build"]["artifacts"]["when"] == "on_success"
    assert document[".test"]["artifacts"]["when"] == "always"


# -- limits


def test_gitlab_has_child_pipelines_where_one_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gitlab_pipelines, "MOST_JOBS", 16)
    document = load(format_jobs("gitlab", make()))
    assert [*document][1:] == [
        *("plan cells 1", "cells 1", "plan cells 2", "cells 2", "plan cells 3", "cells 3"),
    ]
    assert "--tier nightly --shard 2/3" in document["plan cells 2"]["script"][-1]
    part = load(format_jobs("gitlab", make(), shard="2/3"))
    assert not [name for name in part if name.startswith("smoke")]  # of which the first has all


def test_a_run_that_circleci_would_not_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circleci_workflows, "_LARGEST", 5_000)
    with pytest.raises(ProfileError, match=r"^\S+: ci: circleci: 10 cells come to"):
        format_jobs("circleci", make())


@pytest.mark.parametrize("text", ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"])
def test_a_name_for_azure_is_short_plain_and_its_own(text: str) -> None:
    others = ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"]
    name = identify(f"cell {text}", "_")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name)
    assert [other for other in others if identify(f"cell {other}", "_") == name] == [text]


@pytest.mark.parametrize("value", ["1e3", "0o7", "08", "3.10", "1_000", "0x1f"])
def test_a_value_that_yaml_reads_as_another_type_stays_text(value: str) -> None:
    text = PROJECT.replace('"./tools/binary_checks-0.1.0-py3-none-any.whl[fleet,sign]"', '"x"')
    pipeline = make(
        text.replace('branch = "main"', "").replace("[ci]\n", f'[ci]\nbranch = "{value}"\n')
    )
    assert (
        f"branches: ['{value}']\n"
        in write("github", pipeline)[".github/workflows/binary-checks.yml"]
    )


@pytest.mark.parametrize("system", ["gitlab", "circleci"])
def test_what_run_time_writes_is_what_schemas_want(system: str, tmp_path: Path) -> None:
    texts = [format_jobs(system, make(cells)) for cells in (PROJECT, multiply(60))]
    demand_valid(system, tmp_path, *({f"{system}.yml": text} for text in texts))
