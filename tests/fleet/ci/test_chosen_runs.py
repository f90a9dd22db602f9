"""The cells of a CI run, chosen by its event, labels and variables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from binary_checks.command import main
from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.pipeline import CiRun, choose_jobs, find_run
from tests.fleet.ci.ci_files import HOSTED, PROJECT, make, read_outputs

GPU_CELL = "torch-linux-x86_64-3.12-cu126"
CPU_CELL = "torch-linux-x86_64-3.12-cpu"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_EVENT_NAME", "BINARY_CHECKS_LABELS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "cells.toml").write_text(PROJECT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("system", "environment", "tier"),
    [
        ("github", {"GITHUB_EVENT_NAME": "pull_request"}, "pr"),
        ("github", {"GITHUB_EVENT_NAME": "push"}, "merge"),
        ("github", {"GITHUB_EVENT_NAME": "schedule"}, "nightly"),
        ("github", {"GITHUB_EVENT_NAME": "workflow_dispatch"}, "nightly"),
        ("circleci", {"CIRCLE_BRANCH": "main"}, "merge"),
        ("circleci", {"CIRCLE_BRANCH": "work"}, "pr"),
        ("circleci", {"BINARY_CHECKS_TRIGGER": "scheduled_pipeline"}, "nightly"),
        ("circleci", {"CIRCLE_BRANCH": "work", "BINARY_CHECKS_ONLY": "id=x"}, "nightly"),
        ("circleci", {"CIRCLE_BRANCH": "work", "BINARY_CHECKS_TIER": "nightly"}, "nightly"),
    ],
)
def test_the_event_says_which_tier_runs(
    system: str, environment: dict[str, str], tier: str
) -> None:
    assert find_run(system, environment, "main").tier == tier


def test_a_tier_that_there_is_not_is_one_line() -> None:
    with pytest.raises(ProfileError, match="BINARY_CHECKS_TIER: 'night' is not one of: pr, merge,"):
        find_run("github", {"BINARY_CHECKS_TIER": "night"}, "main")


@pytest.mark.usefixtures("folder")
def test_a_pull_request_runs_the_cells_of_its_tier(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    assert main(["cells", "--ci", "github"]) == 0
    text = capsys.readouterr().out
    assert read_outputs(text)["night"] == "false"
    assert main(["cells", "--tier", "pr", "--ids"]) == 0
    ids = capsys.readouterr().out.split()
    (chunk,) = json.loads(read_outputs(text)["chunks"])
    assert [row["cell"] for row in json.loads(chunk)] == ids
    assert 0 < len(ids) < 10


@pytest.mark.usefixtures("folder")
def test_a_label_of_a_pull_request_narrows_it_and_adds_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = "bug;cells only: system=linux python=3.12;cells also: id=torch-macos-arm64-3.12-cu126"
    monkeypatch.setenv("BINARY_CHECKS_LABELS", labels)
    for system in HOSTED:
        assert main(["cells", "--ci", system, "--tier", "pr"]) == 0
        text = capsys.readouterr().out
        for cell in (CPU_CELL, GPU_CELL, "torch-macos-arm64-3.12-cu126"):
            assert cell in text
        assert "3.11" not in text
    monkeypatch.setenv("BINARY_CHECKS_LABELS", "cells only: python=2.7")
    assert main(["cells", "--ci", "github"]) == 4
    assert "BINARY_CHECKS_LABELS 'python=2.7' matches no cell" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("system", "variable", "event"),
    [
        ("github", "GITHUB_EVENT_NAME", "pull_request"),
        ("circleci", "CIRCLE_BRANCH", "work"),
    ],
)
def test_a_label_that_widens_a_pull_request_publishes_nothing_and_is_no_night(
    system: str,
    variable: str,
    event: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, event)
    monkeypatch.setenv("BINARY_CHECKS_LABELS", "cells tier: nightly")
    assert main(["cells", "--ci", system]) == 0
    text = capsys.readouterr().out
    assert all(cell.id in text for cell in make().matrix.cells)
    assert not re.search(r"stage (?:publish|smoke|plan)\b", text)
    if system == "github":
        assert read_outputs(text)["night"] == "false"


def test_a_run_by_hand_that_is_narrowed_is_no_night() -> None:
    run = find_run("circleci", {"CIRCLE_BRANCH": "work", "BINARY_CHECKS_ONLY": "id=x"}, "main")
    assert run == CiRun(event="merge", tier="nightly")
    jobs = choose_jobs(make(), "circleci", [CPU_CELL], run)
    assert not jobs.is_night
    assert "publish" in jobs.stages
