"""Jobs computed at run time: own chains, right machines, and within the systems' limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.templating import identify
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


def github_rows(text: str) -> list[Json]:
    chunks = json.loads(read_outputs(text)["chunks"])
    return [row for chunk in chunks for row in json.loads(chunk)]


def circleci_calls(text: str, workflow: str = "nightly") -> dict[str, Json]:
    jobs = load(text)["workflows"][workflow]["jobs"]
    return {call["name"]: {**call, "key": key} for job in jobs for key, call in job.items()}


def scripts_of(job: Json) -> list[str]:
    """The scripts of a job's steps, without the one that ends it with the stage's status."""
    runs = [step["run"] for step in job["steps"] if "run" in step]
    return [run["command"] for run in runs if isinstance(run, dict)]


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
    assert sorted(cells) == sorted(cell.id for cell in make().matrix.cells)
    assert json.loads(read_outputs(format_jobs("github", make(), "pr"))["smoke"]) == []


def test_more_groups_than_a_matrix_may_have_are_one_line() -> None:
    text = multiply(300).replace("[ci]\n", "[ci]\nsmoke_cells = 1\n")
    with pytest.raises(ProfileError, match="300 jobs of a night, but github allows 256"):
        format_jobs("github", make(text))


# -- each cell waits for itself


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
    calls = circleci_calls(format_jobs("circleci", make()), "night")
    waiting = {name: call["requires"] for name, call in calls.items() if "gpu" in name}
    assert waiting == {name: [{name.replace("-gpu", ""): "terminal"}] for name in waiting}
    assert waiting


# -- machines


def test_a_gpu_machine_is_given_to_gpu_stages_alone() -> None:
    text = format_jobs("circleci", make())
    machines = {
        name: load(text)["jobs"][call["key"]] for name, call in circleci_calls(text).items()
    }
    owned = {name.split()[0] for name, job in machines.items() if "cuda" in json.dumps(job)}
    assert owned == {"gpu"}


def test_a_free_threaded_python_is_fetched_where_an_image_has_another_one() -> None:
    pipeline = make(PROJECT.replace('"3.12"', '"3.14t"'))
    text = format_jobs("circleci", pipeline)
    calls = circleci_calls(text)
    for cell, made in (
        ("torch-linux-x86_64-3.14t-cpu", True),
        ("torch-linux-x86_64-3.11-cpu", False),
    ):
        job = load(text)["jobs"][calls[f"test {cell}"]["key"]]
        assert ("uv venv" in json.dumps(job)) is made
        assert job["docker"] == [{"image": f"cimg/python:{'3.13' if made else '3.11'}"}]
        assert job["environment"]["JOB_PYTHON"] == cell.split("-")[3]


def test_machines_of_windows_run_the_same_shell() -> None:
    text = format_jobs("circleci", make())
    call = circleci_calls(text)["test torch-windows-amd64-3.12-cpu"]
    assert load(text)["jobs"][call["key"]]["shell"] == "bash.exe -eo pipefail"


# -- secrets and publishing


def test_secrets_are_hidden_from_what_does_not_read_them() -> None:
    hidden = "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY SIGNING_KEY\n"
    text = format_jobs("circleci", make())
    calls = circleci_calls(text)
    smoke = scripts_of(load(text)["jobs"]["smoke-1"])
    assert [hidden in each for each in smoke] == [*[True] * (len(smoke) - 1), False]
    assert "unset SIGNING_KEY\nbinary-checks ci stage smoke" in smoke[-1]
    assert any("uv python install" in each for each in smoke[:-1])
    for stage in ("build", "test", "gpu"):
        job = load(text)["jobs"][calls[f"{stage} {GPU_CELL}"]["key"]]
        assert all(hidden in each for each in scripts_of(job))
    publish = scripts_of(load(text)["jobs"][calls[f"publish {GPU_CELL}"]["key"]])
    assert [hidden in each for each in publish] == [True, False]
    assert "unset" not in publish[-1]
    assert {name.split()[0] for name, call in calls.items() if "context" in call} == {"publish"}


# -- limits


def test_a_run_that_circleci_would_not_read_is_one_line() -> None:
    with pytest.raises(ProfileError, match=r"^\S+: ci: circleci: 1,200 cells come to 3.\d MB, but"):
        format_jobs("circleci", make(multiply(1200)))


@pytest.mark.parametrize("text", ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"])
def test_a_name_of_a_job_is_short_plain_and_its_own(text: str) -> None:
    others = ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"]
    name = identify(f"cell {text}", "_")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name)
    assert [other for other in others if identify(f"cell {other}", "_") == name] == [text]


@pytest.mark.parametrize("value", ["1e3", "0o7", "08", "3.10", "1_000", "0x1f"])
def test_a_value_that_yaml_reads_as_another_type_stays_text(value: str) -> None:
    pipeline = make(PROJECT.replace("[ci]\n", f'[ci]\nbranch = "{value}"\n'))
    main = write("github", pipeline)[".github/workflows/binary-checks.yml"]
    assert load(main)["on"]["push"] == {"branches": [value]}
    assert f'    - "{value}"\n' in main  # for YAML 1.2, too


def test_what_run_time_writes_is_what_the_schema_wants(tmp_path: Path) -> None:
    demand_valid("circleci", tmp_path, {"circleci.yml": format_jobs("circleci", make())})
