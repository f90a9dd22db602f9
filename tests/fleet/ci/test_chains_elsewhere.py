"""GitLab, CircleCI and Azure: each cell is a chain of its own, on its machines, within limits."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci import azure_pipelines, circleci_workflows, gitlab_pipelines
from binary_checks.fleet.ci.hosted_scripts import identify
from binary_checks.fleet.ci.pipeline import Pipeline
from tests.fleet.ci.ci_files import PROJECT, demand_tool
from tests.fleet.ci.elsewhere_files import Json, load, make, write

SCHEMAS = {"gitlab": "vendor.gitlab-ci", "circleci": "vendor.circle-ci"} | {
    "azure": "vendor.azure-pipelines"
}
MEGABYTE = 1_000_000


def multiply(count: int) -> str:
    """A matrix of so many cells, of which most have no GPU stage."""
    names = json.dumps([f"project{number}" for number in range(count)])
    head = f'[[cells]]\nproject = {names}\nsystem = "linux-x86_64"\npython = "3.12"\n'
    gpu = '[[gpu]]\nwhen = "project=project*0"\n'
    return (
        head
        + gpu
        + PROJECT[PROJECT.index("[[runners]]") :]
        .replace("variant=cu*", "id=*")
        .replace("gpu-{variant}", "gpu")
    )


def list_needs(job: Json) -> list[str]:
    return [each["job"] for each in job.get("needs", ())]


def gitlab_jobs(files: Mapping[str, str]) -> dict[str, Json]:
    """Those of cells."""
    return {
        name: job
        for path, text in files.items()
        if "night" not in path
        for name, job in load(text).items()
        if not name.startswith(".") and "trigger" not in job and name != "choose cells"
    }


def circleci_calls(files: Mapping[str, str], workflow: str) -> dict[str, Json]:
    jobs = load(files[".circleci/config.yml"])["workflows"][workflow]["jobs"]
    return {call["name"]: call for job in jobs for call in job.values()}


def azure_stages(files: Mapping[str, str]) -> Iterator[Json]:
    for text in files.values():
        yield from load(text)["stages"]


GPU_CELL = "torch-linux-x86_64-3.12-cu126"
CPU_CELL = "torch-linux-x86_64-3.12-cpu"


# -- each cell waits for itself


def test_a_job_of_gitlab_needs_jobs_of_its_own_cell_alone() -> None:
    pipeline = make()
    jobs = gitlab_jobs(write("gitlab", pipeline))
    assert len(jobs) == 3 * len(pipeline.cells) + 2
    for name, job in jobs.items():
        assert {need.partition(" ")[2] for need in list_needs(job)} <= {name.partition(" ")[2]}
        assert {*list_needs(job)} <= {*jobs}
    assert list_needs(jobs[f"gpu {GPU_CELL}"]) == [f"build {GPU_CELL}", f"test {GPU_CELL}"]
    assert list_needs(jobs[f"publish {CPU_CELL}"]) == [f"build {CPU_CELL}", f"test {CPU_CELL}"]


def test_a_job_of_circleci_requires_jobs_of_its_own_cell_alone() -> None:
    calls = circleci_calls(write("circleci", make()), "nightly")
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


def test_a_cell_of_azure_is_a_stage_that_depends_on_no_other() -> None:
    stages = {stage.get("displayName"): stage for stage in azure_stages(write("azure", make()))}
    assert all(stage["dependsOn"] == [] for stage in stages.values())
    jobs = {job["job"]: job for job in stages[GPU_CELL]["jobs"]}
    assert [*jobs] == ["build", "test", "gpu", "publish"]
    assert jobs["gpu"]["dependsOn"] == ["build", "test"]
    assert "dependencies.build.result" in jobs["publish"]["condition"]
    assert [job["job"] for job in stages[CPU_CELL]["jobs"]] == ["build", "test", "publish"]


# -- machines


def test_a_gpu_machine_is_given_to_gpu_stages_alone() -> None:
    pipeline = make()
    jobs = gitlab_jobs(write("gitlab", pipeline))
    assert {name.split()[0] for name, job in jobs.items() if job.get("tags") == ["gpu"]} == {"gpu"}
    calls = circleci_calls(write("circleci", pipeline), "nightly")
    assert {name.split()[0] for name, call in calls.items() if "cuda" in call["machine"]} == {"gpu"}
    stages = azure_stages(write("azure", pipeline))
    pools = [(job["job"], job["pool"]) for stage in stages for job in stage["jobs"]]
    owned = {re.sub(r"_\d.*", "", name) for name, pool in pools if pool == {"name": "gpus"}}
    assert owned == {"gpu", "smoke_gpu"}


@pytest.mark.parametrize("system", ["gitlab", "circleci", "azure"])
def test_a_system_without_a_machine_for_a_cell_is_one_line(system: str) -> None:
    text = re.sub(rf"(?m)^{system} = (?!.*macs).*\n", "", PROJECT)
    with pytest.raises(ProfileError) as caught:
        make(text)
    said = str(caught.value)
    assert f"runners: {system} has no machine for torch-linux-x86_64-3.11-cu126" in said
    assert "\n" not in said


def test_a_free_threaded_python_is_fetched_where_an_image_has_another_one() -> None:
    pipeline = make(PROJECT.replace('"3.12"', '"3.14t"'))
    document = load(write("gitlab", pipeline)[".gitlab/binary-checks.yml"])
    threaded = document["test torch-linux-x86_64-3.14t-cpu"]
    assert threaded["image"] == "python:3.13"
    assert threaded["variables"]["JOB_PYTHON"] == "3.14t"
    assert threaded["extends"][0] == ".binary-checks-test-machine"
    assert document["test torch-linux-x86_64-3.11-cpu"]["extends"][0] == ".binary-checks-test"
    calls = circleci_calls(write("circleci", pipeline), "nightly")
    prepared = {
        name.partition(" ")[2]: call["prepare"]
        for name, call in calls.items()
        if name.startswith("test torch-linux")
    }
    assert prepared["torch-linux-x86_64-3.14t-cpu"] is True
    assert prepared["torch-linux-x86_64-3.11-cpu"] is False


def test_a_free_threaded_python_of_azure_comes_from_uv() -> None:
    stages = azure_stages(write("azure", make(PROJECT.replace('"3.12"', '"3.14t"'))))
    jobs = {stage.get("displayName"): stage["jobs"] for stage in stages}
    plain = {"versionSpec": "$(JOB_PYTHON)"}
    for cell, wanted in (("3.14t", {"versionSpec": "3.13"}), ("3.11", plain)):
        build, *_, publish = jobs[f"torch-linux-x86_64-{cell}-cpu"]
        assert build["steps"][1]["inputs"] == wanted
        made = [step for step in build["steps"] if "uv venv" in step.get("bash", "")]
        assert len(made) == (cell == "3.14t")
        assert publish["steps"][1]["inputs"] == plain


def test_machines_of_windows_run_the_same_shell() -> None:
    files = write("gitlab", make())
    script = load(files[".gitlab/binary-checks.yml"])[".binary-checks-test-windows"]["script"]
    assert all("Git/bin/bash.exe" in step and "exit $LASTEXITCODE" in step for step in script)
    executors = load(write("circleci", make())[".circleci/config.yml"])["executors"]
    shells = {each["shell"] for name, each in executors.items() if "windows" in name}
    assert shells == {"bash.exe -eo pipefail"}


# -- values, secrets, events


def test_values_of_cells_come_to_scripts_as_variables_alone() -> None:
    options = 'options = ["-k", "a$HOME `id` {b}"]'
    pipeline = make(PROJECT.replace('options = ["--binary-with-requirements"]', options))
    jobs = gitlab_jobs(write("gitlab", pipeline))
    shown = jobs[f"test {GPU_CELL}"]["variables"]["CELL_OPTIONS"]
    assert shown["expand"] is False
    assert shown["value"].endswith("a$HOME `id` {b}")
    call = circleci_calls(write("circleci", pipeline), "nightly")[f"test {GPU_CELL}"]
    assert call["cell_options"].endswith("a$HOME `id` {b}")
    stages = {stage.get("displayName"): stage for stage in azure_stages(write("azure", pipeline))}
    assert stages[GPU_CELL]["variables"]["CELL_OPTIONS"].endswith("a$HOME `id` {b}")
    for system in ("gitlab", "circleci", "azure"):
        for text in write(system, pipeline).values():
            scripts = re.findall(r"(?m)^ *(?:set -e|binary-checks|python) .*$", text)
            assert not [line for line in scripts if "torch-" in line or "`id`" in line]


def test_secrets_are_names_and_reach_only_what_reads_them() -> None:
    pipeline = make()
    base = load(write("gitlab", pipeline)[".gitlab/binary-checks.yml"])
    hidden = "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY SIGNING_KEY\n"
    assert all(hidden in step for step in base[".binary-checks-build"]["script"])
    publish = base[".binary-checks-publish-machine"]
    assert publish["environment"] == {"name": "publish", "action": "access"}
    assert [hidden in step for step in publish["script"]][:2] == [True, True]
    signing = [step for step in publish["script"] if '"$SIGNING_KEY"' in step]
    assert len(signing) == 1
    assert "unset" not in signing[0]
    calls = circleci_calls(write("circleci", pipeline), "nightly")
    assert {name.split()[0] for name, call in calls.items() if "context" in call} == {"publish"}
    for stage in azure_stages(write("azure", pipeline)):
        for job in stage["jobs"]:
            given = [name for step in job["steps"] for name in step.get("env", ())]
            assert bool(given) is (job["job"] == "publish" or stage["stage"] == "night")


def test_nothing_is_published_for_a_pull_request() -> None:
    pipeline = make()
    jobs = gitlab_jobs(write("gitlab", pipeline))
    rules = load(write("gitlab", pipeline)[".gitlab/binary-checks.yml"])
    for name, job in jobs.items():
        said = [rule["if"] for rule in rules[job["extends"][1]]["rules"]]
        assert not (name.startswith("publish") and any("merge_request" in each for each in said))
    assert not [n for n in circleci_calls(write("circleci", pipeline), "pr") if "publish" in n]
    for stage in azure_stages(write("azure", pipeline)):
        for job in stage["jobs"]:
            if job["job"] == "publish":
                assert "not(eq(variables['Build.Reason'], 'PullRequest'))" in job["condition"]


def test_a_pull_request_runs_the_cells_of_its_tier() -> None:
    pipeline = make()
    ids = {cell.id for cell in pipeline.tiers["pr"]}
    calls = circleci_calls(write("circleci", pipeline), "pr")
    assert {name.partition(" ")[2] for name in calls} == ids
    document = load(write("gitlab", pipeline)[".gitlab/binary-checks.yml"])
    rules = {name: job["extends"][1] for name, job in document.items() if name.startswith("test ")}
    assert {name[5:] for name, rule in rules.items() if "-on-pr-" in rule} == ids
    assert len(ids) < len(pipeline.cells)


# -- limits


def test_gitlab_has_child_pipelines_where_one_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gitlab_pipelines, "MOST_JOBS", 16)
    files = write("gitlab", make())
    main = load(files[".gitlab/binary-checks.yml"])
    assert [*main][:2] == ["choose cells", "chosen cells"]
    assert [*main][2:] == ["cells 1", "cells 2", "cells 3", "night"]
    assert main["cells 2"]["trigger"]["include"] == [{"local": ".gitlab/binary-checks-cells-2.yml"}]
    jobs = gitlab_jobs(files)
    assert {name.partition(" ")[2] for name in jobs} == {cell.id for cell in make().cells}


@pytest.mark.parametrize("events", [5, 16])
def test_a_child_pipeline_that_is_called_has_a_job(
    events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an empty one would be an error."""
    monkeypatch.setattr(gitlab_pipelines, "MOST_JOBS", events)
    files = write("gitlab", make())
    for name, job in load(files[".gitlab/binary-checks.yml"]).items():
        if not name.startswith("cells"):
            continue
        assert job["rules"].pop(0)["when"] == "never"  # where labels choose other cells
        child = load(files[job["trigger"]["include"][0]["local"]])
        rules = {rule["if"] for each in child.values() for rule in each.get("rules", ())}
        called = {rule["variables"]["BINARY_CHECKS_TIER"] for rule in job["rules"]}
        assert {f'$BINARY_CHECKS_TIER == "{tier}"' for tier in called} == rules


def test_workflows_and_pipelines_are_cut_where_they_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(circleci_workflows, "MOST_CELLS", 4)
    found = load(write("circleci", make())[".circleci/config.yml"])["workflows"]
    assert [name for name in found if "nightly" in name] == ["nightly-1", "nightly-2", "nightly-3"]
    monkeypatch.setattr(azure_pipelines, "MOST_CELLS", 4)
    files = write("azure", make())
    assert [*files] == ["azure-pipelines.yml", "azure-pipelines-2.yml", "azure-pipelines-3.yml"]
    named = [stage.get("displayName") for stage in azure_stages(files)]
    assert sorted(filter(None, named)) == sorted(cell.id for cell in make().cells)


def test_a_night_that_circleci_would_not_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circleci_workflows, "_LARGEST", 50_000)
    with pytest.raises(ProfileError, match=r"^\S+: ci: circleci: the night of 10 cells comes to"):
        write("circleci", make())


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 257, 400])
def test_each_system_reads_hundreds_of_cells(count: int) -> None:
    pipeline = make(multiply(count))
    assert len(pipeline.cells) == count
    files = write("gitlab", pipeline)
    for text in files.values():
        assert len(text) < MEGABYTE  # max_yaml_size_bytes
        document = load(text)
        jobs = [job for name, job in document.items() if not name.startswith(".")]
        assert len(jobs) <= 500
        assert all(len(job.get("needs", ())) <= 50 for job in jobs if isinstance(job, dict))
    assert write("circleci", pipeline)  # refuses what comes to more than 8 MB
    for text in write("azure", pipeline).values():
        assert len(text) < 0.6 * MEGABYTE
    names = [stage["stage"] for stage in azure_stages(write("azure", pipeline))]
    assert len({name.lower() for name in names}) == len(names) == count + 1


@pytest.mark.parametrize("text", ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"])
def test_a_name_for_azure_is_short_plain_and_its_own(text: str) -> None:
    others = ["a-b", "a_b", "a.b", "a--b", "A-b", "x" * 150, "x" * 149, "-"]
    name = identify(f"cell {text}", "_")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name)
    assert [other for other in others if identify(f"cell {other}", "_") == name] == [text]


@pytest.mark.parametrize("value", ["on", "no", "null", "1e3", "0o7", "08", "3.10", "1_000", "0x1f"])
def test_a_value_that_yaml_reads_as_another_type_stays_text(value: str) -> None:
    pipeline = make(PROJECT.replace('"cpu"', f'"{value}"'))
    cell = f"torch-linux-x86_64-3.12-{value}"
    text = write("gitlab", pipeline)[".gitlab/binary-checks.yml"]
    assert load(text)[f"test {cell}"]["variables"]["CELL_VARIANT"] == value
    assert f"CELL_VARIANT: '{value}'\n" in text


# -- what schemas say


@pytest.mark.parametrize("system", ["gitlab", "circleci", "azure"])
def test_files_are_what_schemas_want(system: str, tmp_path: Path) -> None:
    demand_schema(system, make(multiply(1)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, 257, 400])
@pytest.mark.parametrize("system", ["gitlab", "circleci", "azure"])
def test_files_of_many_cells_are_what_schemas_want(system: str, count: int, tmp_path: Path) -> None:
    demand_schema(system, make(PROJECT if count == 12 else multiply(count)), tmp_path)


def demand_schema(system: str, pipeline: Pipeline, folder: Path) -> None:
    paths = []
    for path, text in write(system, pipeline).items():
        paths.append(folder / path.replace("/", "-"))
        paths[-1].write_text(text, encoding="utf-8")
    ended = subprocess.run(
        [
            demand_tool("check-jsonschema"),
            "--regex-variant=nonunicode",  # that of Azure has escapes that others refuse
            f"--builtin-schema={SCHEMAS[system]}",
            *map(str, paths),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout[:2000]
