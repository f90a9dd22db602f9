"""What a file was built from: the commit, and its branch or pull request."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts import (
    CI_SYSTEMS,
    AxisValue,
    find_origin_of_build,
    read_given,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError

A, B = "a" * 40, "b" * 40
STATED = "torch/version.py"


def chosen(
    folder: Path,
    given: str = "",
    package: tuple[tuple[str, str], ...] = (),
    **environment: str,
) -> AxisValue:
    origin = find_origin_of_build(read_given(given), environment, package, folder, "demo.whl")
    return origin["commit"]


def origin_of(folder: Path, given: dict[str, str], **environment: str) -> dict[str, AxisValue]:
    """What is stated besides the commit."""
    options = read_given(A, **given)
    found = find_origin_of_build(options, environment, (), folder, "demo.whl")
    return {name: each for name, each in found.items() if name != "commit"}


@pytest.mark.parametrize(
    ("given", "package", "environment", "stated"),
    [
        (A.upper(), "", {}, "--commit"),
        ("", "", {"GITHUB_SHA": A}, "GITHUB_SHA"),
        ("", "", {"CI_COMMIT_SHA": A}, "CI_COMMIT_SHA"),
        ("", "", {"CIRCLE_SHA1": A}, "CIRCLE_SHA1"),
        ("", "", {"BUILD_SOURCEVERSION": A}, "BUILD_SOURCEVERSION"),
        ("", "", {"GIT_COMMIT": A}, "GIT_COMMIT"),
        ("", "", {"GIT_COMMIT": A, "GITHUB_SHA": A}, "GITHUB_SHA"),  # the first that agrees
        ("", "", {"BUILD_SOURCEVERSION": "4711", "GIT_COMMIT": A}, "GIT_COMMIT"),
        ("", A, {}, f"{STATED} of the package"),
        (A, "aaaaaaa", {}, "--commit"),  # an abbreviation agrees with what it stands for
    ],
)
def test_the_option_a_ci_system_or_the_package_itself_says_it(
    tmp_path: Path, given: str, package: str, environment: dict[str, str], stated: str
) -> None:
    itself = ((STATED, package),) if package else ()
    assert chosen(tmp_path, given, itself, **environment) == AxisValue(A, stated)


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


def start_repository(folder: Path, branch: str = "main") -> str:
    """Make a repository with one commit, and return the commit."""

    def git(*words: str) -> str:
        ended = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return ended.stdout.strip()

    git("init", "-q", "-b", branch)
    git("commit", "-q", "--allow-empty", "-m", "first")
    evil = folder / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "alias.rev-parse"):
        git("config", key, f"!{evil}" if key.startswith("alias") else str(evil))
    return (folder / ".git" / "refs" / "heads" / branch).read_text().strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_says_what_is_checked_out_and_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    commit = start_repository(tmp_path, "release/1.0")
    assert find_origin_of_build({}, {}, (), tmp_path, "demo.whl") == {
        "commit": AxisValue(commit, "git rev-parse HEAD"),
        "branch": AxisValue("release/1.0", "git symbolic-ref HEAD"),
    }
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_branch_of_a_folder_is_not_that_of_a_commit_stated_elsewhere(tmp_path: Path) -> None:
    commit = start_repository(tmp_path)
    assert origin_of(tmp_path, {}, GITHUB_SHA=A) == {}
    assert find_origin_of_build(read_given(commit), {}, (), tmp_path, "demo.whl").keys() == {
        "commit"
    }


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
def test_the_ci_system_says_for_which_pull_request(
    tmp_path: Path, name: str, value: str, number: str
) -> None:
    found = origin_of(tmp_path, {}, **{name: value})
    assert found.get("pull_request") == (AxisValue(number, name) if number else None)


def test_the_option_says_for_which_pull_request(tmp_path: Path) -> None:
    found = origin_of(tmp_path, {"pull_request": "#12"}, CHANGE_ID="8")
    assert found == {"pull_request": AxisValue("12", "--pull-request")}
    with pytest.raises(ProfileError, match="--pull-request: 'feature' is not the number"):
        read_given(pull_request="feature")


@pytest.mark.parametrize(
    ("name", "value", "branch"),
    [
        ("GITHUB_REF", "refs/heads/release/1.5", "release/1.5"),
        ("GITHUB_REF", "refs/tags/v1.5", ""),
        ("CI_COMMIT_BRANCH", "main", "main"),
        ("BUILD_SOURCEBRANCH", "refs/heads/main", "main"),
        ("GIT_BRANCH", "origin/main", "main"),
        ("GITHUB_REF", "refs/heads/2024", "2024"),
        ("GITHUB_REF", "refs/heads/12/fix", "12/fix"),
        ("GITHUB_REF", "refs/tags/20240101", ""),
        ("CIRCLE_BRANCH", "a b", ""),
        ("CIRCLE_BRANCH", "a\N{RIGHT-TO-LEFT OVERRIDE}b", ""),
        ("CIRCLE_BRANCH", "../main", ""),
        ("CIRCLE_BRANCH", "", ""),
    ],
)
def test_the_ci_system_says_which_branch(
    tmp_path: Path, name: str, value: str, branch: str
) -> None:
    found = origin_of(tmp_path, {}, **{name: value})
    assert found == ({"branch": AxisValue(branch, name)} if branch else {})


def test_a_pull_request_has_the_branch_only_that_the_user_states(tmp_path: Path) -> None:
    """The branch of a fork may be called main, too."""
    variables = {"TRAVIS_PULL_REQUEST": "7", "TRAVIS_BRANCH": "main"}
    assert origin_of(tmp_path, {}, **variables).keys() == {"pull_request"}
    found = origin_of(tmp_path, {"branch": "refs/heads/main"}, **variables)
    assert found["branch"] == AxisValue("main", "--branch")


@pytest.mark.parametrize("given", ["a b", "-x", "/x", "x/", "a..b", "a//b", "x:y", "x*", "a\x07b"])
def test_the_option_takes_a_branch_that_git_allows(given: str) -> None:
    with pytest.raises(ProfileError, match=r"--branch: .* is not the name of a branch"):
        read_given(branch=given)


def test_the_page_has_the_variables_of_each_ci_system() -> None:
    page = (Path(__file__).parents[3] / "docs" / "artifacts.md").read_text("utf-8")
    for system, names in CI_SYSTEMS.items():
        *stated, _ = names
        cells = " | ".join(f"`{name}`" if name else "" for name in stated)
        assert f"| {system} | {cells} |".replace("|  |", "| |") in page
