"""The commit that a file was built from, and the pull request that it was built for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks.errors import ArtifactRefusedError, ProfileError
from binary_checks.fleet.artifacts import (
    StatedCommit,
    StatedRequest,
    choose_commit,
    choose_pull_request,
)

A, B = "a" * 40, "b" * 40
STATED = "torch/version.py"


def chosen(
    folder: Path,
    given: str = "",
    package: tuple[tuple[str, str], ...] = (),
    **environment: str,
) -> StatedCommit:
    return choose_commit(given, environment, package, folder, "demo.whl")


def test_the_option_says_it(tmp_path: Path) -> None:
    assert chosen(tmp_path, A.upper()) == StatedCommit(A, "--commit")


@pytest.mark.parametrize(
    "name", ["GITHUB_SHA", "CI_COMMIT_SHA", "CIRCLE_SHA1", "BUILD_SOURCEVERSION", "GIT_COMMIT"]
)
def test_the_variable_of_a_ci_system_says_it(tmp_path: Path, name: str) -> None:
    assert chosen(tmp_path, **{name: A}) == StatedCommit(A, name)


def test_the_first_of_several_variables_that_agree_is_named(tmp_path: Path) -> None:
    assert chosen(tmp_path, GIT_COMMIT=A, GITHUB_SHA=A) == StatedCommit(A, "GITHUB_SHA")


def test_a_number_of_another_system_is_no_commit(tmp_path: Path) -> None:
    assert chosen(tmp_path, BUILD_SOURCEVERSION="4711", GIT_COMMIT=A).evidence == "GIT_COMMIT"


def test_the_package_says_it_itself(tmp_path: Path) -> None:
    assert chosen(tmp_path, package=((STATED, A),)) == StatedCommit(A, f"{STATED} of the package")


def test_an_abbreviation_agrees_with_what_it_stands_for(tmp_path: Path) -> None:
    assert chosen(tmp_path, A, package=((STATED, "aaaaaaa"),)).commit == A


@pytest.mark.parametrize(
    ("given", "package", "environment", "named"),
    [
        (A, (), {"GITHUB_SHA": B}, ("--commit", "GITHUB_SHA")),
        ("", (), {"GITHUB_SHA": A, "GIT_COMMIT": B}, ("GITHUB_SHA", "GIT_COMMIT")),
        ("", ((STATED, B),), {"GITHUB_SHA": A}, ("GITHUB_SHA", STATED)),
        (A, ((STATED, "bbbbbbb"),), {}, ("--commit", STATED)),
    ],
)
def test_two_that_contradict_each_other_are_refused_naming_both(
    tmp_path: Path,
    given: str,
    package: tuple[tuple[str, str], ...],
    environment: dict[str, str],
    named: tuple[str, str],
) -> None:
    with pytest.raises(ArtifactRefusedError) as refused:
        chosen(tmp_path, given, package, **environment)
    assert all(each in str(refused.value) for each in named)
    assert A in str(refused.value)


@pytest.mark.parametrize("given", ["main", "aaaaaaa", "g" * 40, f"{A}\n{B}"])
def test_the_option_takes_a_commit_in_full(tmp_path: Path, given: str) -> None:
    with pytest.raises(ProfileError, match=r"--commit: .* is not a full commit hash"):
        chosen(tmp_path, given)


def test_without_anybody_who_says_it_nothing_is_pushed(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="commit that it was built from is unknown"):
        chosen(tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_says_what_is_checked_out_and_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)

    def git(*words: str) -> str:
        ended = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        return ended.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "alias.rev-parse"):
        git("config", key, f"!{evil}" if key.startswith("alias") else str(evil))
    assert chosen(tmp_path) == StatedCommit(
        (tmp_path / ".git" / git("symbolic-ref", "HEAD")).read_text().strip(),
        "git rev-parse HEAD",
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("GITHUB_REF", "refs/pull/1234/merge", "1234"),
        ("GITHUB_REF", "refs/heads/main", ""),
        ("GITHUB_REF", "refs/heads/refs/pull/1/merge", ""),
        ("CI_MERGE_REQUEST_IID", "7", "7"),
        ("CIRCLE_PULL_REQUEST", "https://github.com/demo/demo/pull/31", "31"),
        ("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "5", "5"),
        ("BUILDKITE_PULL_REQUEST", "false", ""),
        ("TRAVIS_PULL_REQUEST", "12", "12"),
        ("CHANGE_ID", "../../etc", ""),
        ("BITBUCKET_PR_ID", "0", ""),
        ("CIRRUS_PR", "9" * 40, ""),
    ],
)
def test_the_ci_system_says_for_which_pull_request(name: str, value: str, number: str) -> None:
    stated = StatedRequest(number, name) if number else None
    assert choose_pull_request("", {name: value}) == stated


def test_the_option_says_for_which_pull_request() -> None:
    variables = {"CHANGE_ID": "8"}
    assert choose_pull_request("#12", variables) == StatedRequest("12", "--pull-request")
    with pytest.raises(ProfileError, match="--pull-request: 'feature' is not the number"):
        choose_pull_request("feature", variables)
