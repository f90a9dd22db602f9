"""Generated CI files are small, independent of the cells, valid, pinned and least privileged."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.ci.pipeline import make_pipeline
from binary_checks.profile import parse_toml
from tests.fleet.ci.ci_files import (
    HOSTED,
    PROJECT,
    Json,
    demand_tool,
    demand_valid,
    format_jobs,
    load,
    make,
    multiply,
    write,
)

FOLDER = ".github/workflows"
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
MOST_LINES = 120


def jobs_of(text: str) -> Json:
    found: Json = load(text)["jobs"]
    return found


def steps_of(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, job in jobs_of(text).items():
        for step in job.get("steps", ()):
            if isinstance(step, dict):  # CircleCI's `checkout` is a word
                yield name, step


def scripts_of(text: str) -> Iterator[tuple[str, str]]:
    """The scripts of all jobs, with the jobs' names."""
    for name, step in steps_of(text):
        if "run" in step:
            yield name, step["run"] if isinstance(step["run"], str) else step["run"]["command"]


def github(text: str = PROJECT) -> dict[str, str]:
    """By the names of the files."""
    files = write("github", make(text))
    return {Path(path).stem: content for path, content in files.items()}


# -- all systems


@pytest.mark.parametrize("system", HOSTED)
def test_files_do_not_change_with_the_cells(system: str) -> None:
    one, many = write(system, make(multiply(1))), write(system, make(multiply(400)))
    assert one == many == write(system, make(multiply(1, gpu=False)))
    assert "project0" not in "".join(many.values())


@pytest.mark.parametrize("system", HOSTED)
def test_files_are_small_and_what_schemas_want(system: str, tmp_path: Path) -> None:
    written = [write(system, make(text)) for text in (PROJECT, WATCHED)]
    for files in written:
        assert 1 <= len(files) <= 4
        assert all(len(content.splitlines()) <= MOST_LINES for content in files.values())
    demand_valid(system, tmp_path, *written)


@pytest.mark.parametrize("system", HOSTED)
def test_no_script_has_a_value_of_a_cell_or_an_expression(system: str) -> None:
    pipeline = make()
    files = write(system, pipeline).values()
    assert not [cell.id for cell in pipeline.matrix.cells if cell.id in "".join(files)]
    scripts = [script for text in files for _, script in scripts_of(text)]
    assert len(scripts) >= 2
    assert not [script for script in scripts if "{{" in script or "<<" in script]


ODD = """a: b $HOME # c 'd' "e" {f} *g &h !i %j @k \\ ä ☃ {{ x }} [[ settings ]] [% y %] [# z #]"""


@pytest.mark.parametrize("name", ["AWS_REGION", "YES", "NULL"])
def test_a_text_is_nothing_but_a_text_in_every_file(name: str) -> None:
    text = PROJECT.replace('deployment = "publish"', f"deployment = {json.dumps(ODD)}")
    text = text.replace('AWS_REGION = "eu-central-1"', f"{name} = {json.dumps(ODD)}")
    files = github(text)
    assert load(files["binary-checks"])["env"] == {name: ODD}
    assert jobs_of(files["binary-checks-cell"])["publish"]["environment"] == ODD
    setup = jobs_of(write("circleci", make(text))[".circleci/config.yml"])
    assert setup["plan"]["environment"][name] == ODD
    at_run_time = load(format_jobs("circleci", make(text)))
    assert {job["environment"][name] for job in at_run_time["jobs"].values()} == {ODD}
    night = at_run_time["workflows"]["night"]["jobs"]
    assert {context for call in night for job in call.values() for context in job["context"]} == {
        ODD
    }
    tox = parse_toml(write("tox", make(text))["tox.toml"].encode(), "tox.toml")
    assert tox["env_run_base"]["set_env"] == {name: re.sub(r"([{}])", r"\\\1", ODD)}


def test_a_name_of_the_matrix_is_one_word_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "it's: a # matrix.toml"
    path.write_text(PROJECT, encoding="utf-8")
    pipeline = make_pipeline(read_cells(path), tmp_path)
    for system, command in (("github", "ci stage"), ("github", "cells"), ("circleci", "cells")):
        scripts = [
            script for text in write(system, pipeline).values() for _, script in scripts_of(text)
        ]
        (words, *others) = (
            shlex.split(each) for each in scripts if f"binary-checks {command}" in each
        )
        assert path.name in words
        assert all(path.name in each for each in others)


# -- GitHub


@pytest.mark.parametrize("text", [PROJECT, WATCHED], ids=["built", "watched"])
def test_zizmor_finds_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    paths = []
    for path, content in write("github", make(text)).items():
        paths.append(tmp_path / path)
        paths[-1].write_text(content, encoding="utf-8")
    command = [demand_tool("zizmor"), "--offline", "--quiet", *map(str, paths)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "couldn't parse" not in ended.stderr


@pytest.mark.parametrize(
    "text", [PROJECT, WATCHED, PROJECT + IMAGE], ids=["gpu", "watched", "image"]
)
def test_every_name_in_an_expression_is_declared(text: str) -> None:
    """Of inputs, secrets, jobs and steps, in all files; rows have what run time gives them."""
    files = github(text)
    for path, content in files.items():
        document = load(content)
        events = document["on"]
        given = {**(events.get("workflow_call") or {}), **(events.get("workflow_dispatch") or {})}
        for name, job in document["jobs"].items():
            pattern = r"(inputs|needs|steps|secrets)\.([\w-]+)(?:\.outputs\.([\w-]+))?"
            named = job.get("needs", ())
            needed = {named} if isinstance(named, str) else {*named}
            for kind, used, output in re.findall(pattern, json.dumps(job)):
                where = f"{path}: {name}: {kind}.{used}"
                if kind == "inputs":
                    assert used in given["inputs"], where
                elif kind == "secrets" and "workflow_call" in events:
                    assert used in given["secrets"], where
                elif kind == "needs":
                    assert used in needed & document["jobs"].keys(), where
                    assert not output or output in document["jobs"][used]["outputs"], where
                elif kind == "steps":
                    assert used in {step.get("id") for step in job["steps"]}, where
            if "uses" in job:
                called = load(files[Path(job["uses"]).stem])["on"]["workflow_call"] or {}
                assert job.get("with", {}).keys() == called.get("inputs", {}).keys()
                assert job.get("secrets", {}).keys() == called.get("secrets", {}).keys()


def test_cells_run_in_the_image_of_their_runner() -> None:
    files = github(PROJECT + IMAGE)
    chain = jobs_of(files["binary-checks-cell"])
    assert chain["test"]["container"] == "${{ fromJSON(inputs.row).container }}"
    assert chain["gpu"]["container"] == "${{ fromJSON(inputs.row).gpu_container }}"
    assert "container" not in chain["publish"]
    assert "container" in jobs_of(files["binary-checks-night"])["smoke"]
    assert "container" not in jobs_of(github()["binary-checks-cell"])["test"]


def test_the_gpu_stage_waits_for_its_own_cell_alone_and_only_good_builds_are_published() -> None:
    files = github()
    chain = jobs_of(files["binary-checks-cell"])
    assert [*chain] == ["build", "test", "gpu", "publish"]
    assert chain["gpu"]["needs"] == ["build", "test"]
    assert chain["gpu"]["if"] == "${{ fromJSON(inputs.row).gpu }}"
    assert chain["publish"]["if"].startswith("${{ !cancelled() && needs.build.result == 'success'")
    assert "github.event_name != 'pull_request'" in chain["publish"]["if"]
    upload = chain["build"]["steps"][-1]  # which a build that failed does not reach
    assert "upload-artifact" in upload["uses"]
    assert "if" not in upload
    assert "needs" not in jobs_of(files["binary-checks-chunk"])["cell"]
    assert jobs_of(files["binary-checks"])["cells"]["needs"] == "plan"


def test_the_night_goes_on_when_cells_are_red() -> None:
    files = github()
    assert jobs_of(files["binary-checks"])["night"]["if"].startswith("${{ !cancelled()")
    jobs = jobs_of(files["binary-checks-night"])
    assert [*jobs] == ["plan", "smoke", "smoke-gpu", "collect"]
    for name in ("smoke-gpu", "collect"):
        assert jobs[name]["if"].startswith("${{ !cancelled()")


def test_what_is_not_built_has_a_night_alone_which_begins_by_itself() -> None:
    files = github(WATCHED)
    assert [*files] == ["binary-checks-night"]
    events = load(files["binary-checks-night"])["on"]
    assert events == {"schedule": [{"cron": "17 3 * * *"}], "workflow_dispatch": None}
    assert [*load(github()["binary-checks-night"])["on"]] == ["workflow_call"]


def test_every_action_stands_beside_its_tag() -> None:
    used = [each for text in github().values() for each in re.findall(r"uses: (.*)", text)]
    actions = [each for each in used if not each.startswith("$/")]
    assert len(actions) > 20
    for each in actions:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_secrets_reach_the_steps_that_read_them_and_no_others() -> None:
    files = github()
    steps = [each for content in files.values() for each in steps_of(content)]
    seen = {(job, step["run"].strip()) for job, step in steps if "secrets." in json.dumps(step)}
    assert seen == {
        (stage, f"binary-checks ci stage {stage}")
        for stage in ("publish", "plan", "smoke", "smoke-gpu", "collect")
    }
    assert [job for job, step in steps if "SIGNING_KEY" in step.get("env", {})] == ["publish"]
    assert jobs_of(files["binary-checks-cell"])["publish"]["environment"] == "publish"


def test_jobs_may_read_and_nothing_else_keep_no_credentials_and_end() -> None:
    given: dict[str, list[Json]] = {"checkout": [], "upload-artifact": [], "setup-python": []}
    for text in github().values():
        assert load(text)["permissions"] == {"contents": "read"}
        for job in jobs_of(text).values():
            assert "permissions" not in job
            assert "timeout-minutes" in job or "uses" in job
        for _, step in steps_of(text):
            for action, found in given.items():
                if f"actions/{action}@" in step.get("uses", ""):
                    found.append(step["with"])
    assert all(each == {"persist-credentials": False} for each in given["checkout"])
    # An attempt replaces what the one before it left, and Pythons may be previews.
    assert {each["overwrite"] for each in given["upload-artifact"]} == {True}
    assert {each["allow-prereleases"] for each in given["setup-python"]} == {True}


# -- CircleCI


def test_circleci_hides_secrets_from_what_plans() -> None:
    hidden = "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY SIGNING_KEY\n"
    text = write("circleci", make())[".circleci/config.yml"]
    assert "context" not in json.dumps(jobs_of(text)["plan"])
    assert [hidden in script for _, script in scripts_of(text)] == [True, True]


def test_variables_of_every_job_are_there_before_anything_is_installed() -> None:
    region = ("AWS_REGION", "eu-central-1")
    for name, text in github().items():
        assert name == "binary-checks-chunk" or region in load(text)["env"].items()
    plan = load(write("circleci", make())[".circleci/config.yml"])["jobs"]["plan"]
    assert region in plan["environment"].items()
