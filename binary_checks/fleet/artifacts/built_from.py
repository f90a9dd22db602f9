"""What a file was built from: a commit, and the branch or the pull request that has it.

The user, the CI system, the package itself or git states it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import PULL_REQUEST, ArtifactRefusedError, is_branch
from binary_checks.fleet.artifacts.axis_claims import AxisValue
from binary_checks.safe_text import cut, one_line


class CiVariables(NamedTuple):
    """The variables by which a CI system states something; "" if it has none for it."""

    commit: str
    branch: str
    pull_request: str
    actor: str = ""  # the user who started the build


CI_SYSTEMS: Mapping[str, CiVariables] = {
    "GitHub": CiVariables("GITHUB_SHA", "GITHUB_REF", "GITHUB_REF", "GITHUB_ACTOR"),
    "GitLab": CiVariables(
        "CI_COMMIT_SHA", "CI_COMMIT_BRANCH", "CI_MERGE_REQUEST_IID", "GITLAB_USER_LOGIN"
    ),
    "CircleCI": CiVariables(
        "CIRCLE_SHA1", "CIRCLE_BRANCH", "CIRCLE_PULL_REQUEST", "CIRCLE_USERNAME"
    ),
    "Azure Pipelines": CiVariables(
        "BUILD_SOURCEVERSION",
        "BUILD_SOURCEBRANCH",
        "SYSTEM_PULLREQUEST_PULLREQUESTNUMBER",
        "BUILD_REQUESTEDFOR",
    ),
    "Buildkite": CiVariables("BUILDKITE_COMMIT", "BUILDKITE_BRANCH", "BUILDKITE_PULL_REQUEST"),
    "Travis CI": CiVariables("TRAVIS_COMMIT", "TRAVIS_BRANCH", "TRAVIS_PULL_REQUEST"),
    "AppVeyor": CiVariables(
        "APPVEYOR_REPO_COMMIT", "APPVEYOR_REPO_BRANCH", "APPVEYOR_PULL_REQUEST_NUMBER"
    ),
    "Cirrus CI": CiVariables("CIRRUS_CHANGE_IN_REPO", "CIRRUS_BRANCH", "CIRRUS_PR"),
    "Drone": CiVariables("DRONE_COMMIT_SHA", "DRONE_BRANCH", "DRONE_PULL_REQUEST"),
    "Woodpecker": CiVariables("CI_COMMIT_SHA", "CI_COMMIT_BRANCH", "CI_COMMIT_PULL_REQUEST"),
    "Bitbucket": CiVariables("BITBUCKET_COMMIT", "BITBUCKET_BRANCH", "BITBUCKET_PR_ID"),
    "AWS CodeBuild": CiVariables(
        "CODEBUILD_RESOLVED_SOURCE_VERSION", "CODEBUILD_WEBHOOK_HEAD_REF", ""
    ),
    "Jenkins": CiVariables("GIT_COMMIT", "GIT_BRANCH", "CHANGE_ID"),
}
"""The CI systems in the order in which their variables are read."""
_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{7,64}")
_FORMS: Mapping[str, re.Pattern[str]] = {
    "commit": re.compile(r"(.*)"),
    # refs/tags/v1 is no branch; Jenkins' git plugin names the remote, too
    "branch": re.compile(r"(?:refs/heads/|origin/)?(?!refs/)(.*)"),
    "pull_request": re.compile(r"(?:refs/pull/|https?://.*/)?(\d+)(?:/merge|/head)?", re.ASCII),
}
"""Field -> the form that its value has in variables."""
_VALID: Mapping[str, Callable[[str], object]] = {
    "commit": _FULL.fullmatch,
    "branch": is_branch,
    "pull_request": PULL_REQUEST.fullmatch,
}
_NOUNS = {
    "commit": "a full commit hash of 40 or 64 hex digits",
    "branch": "the name of a branch",
    "pull_request": "the number of a pull request",
}
_GIT = "git rev-parse HEAD"
_GIT_TIMEOUT = 10.0  # seconds


def read_given(commit: str = "", branch: str = "", pull_request: str = "") -> dict[str, AxisValue]:
    """Return what the user's options state. Raises ProfileError for an impossible value."""
    given = {"commit": commit, "branch": branch, "pull_request": pull_request}
    texts = {
        "commit": commit.strip().lower(),
        "branch": branch.strip().removeprefix("refs/heads/"),
        "pull_request": pull_request.strip().removeprefix("#"),
    }
    found = {}
    for name, text in texts.items():
        option = f"--{name.replace('_', '-')}"
        if given[name] and not _VALID[name](text):
            shown = cut(one_line(repr(given[name])), 80)
            raise ProfileError(f"{option}: {shown} is not {_NOUNS[name]}")
        if text:
            found[name] = AxisValue(text, option)
    return found


def find_origin_of_build(
    given: Mapping[str, AxisValue],
    environment: Mapping[str, str],
    package: Sequence[tuple[str, str]],
    folder: Path,
    named: str,
) -> dict[str, AxisValue]:
    """Return commit, branch and pull_request of a file, as far as they are known.

    ``package`` are members of the package with the commit that they name, and ``folder`` is the one
    whose git is asked. Raises ProfileError if nothing states the commit, and ArtifactRefusedError
    if two sources disagree on it.

    The branch of a pull request is not recorded unless the user states it: it may be ``main``, of
    somebody else's repository.
    """
    found = {"commit": _choose_commit(given, environment, package, folder, named)}
    request = given.get("pull_request") or next(_read_variables(environment, "pull_request"), None)
    branch = given.get("branch")
    if request:
        found["pull_request"] = request
    elif not branch:
        branch = next(_read_variables(environment, "branch"), None)
    if not (branch or request) and found["commit"].evidence == _GIT:
        branch = _ask_git(folder, "branch", "symbolic-ref", "--short", "HEAD")
    if branch:
        found["branch"] = branch
    return found


def _choose_commit(
    given: Mapping[str, AxisValue],
    environment: Mapping[str, str],
    package: Sequence[tuple[str, str]],
    folder: Path,
    named: str,
) -> AxisValue:
    own = [AxisValue(commit, f"{member} of the package") for member, commit in package]
    stated = [given["commit"]] if "commit" in given else []
    every = [*stated, *_read_variables(environment, "commit"), *own]
    full = next((each for each in every if _FULL.fullmatch(each.value)), None)
    chosen = full or _ask_git(folder, "commit", "rev-parse", "--verify", "HEAD")
    if chosen is None:
        variables = ", ".join(each.commit for each in list(CI_SYSTEMS.values())[:4])
        raise ProfileError(
            f"{named}: the commit that it was built from is unknown; give --commit (neither "
            f"variables ({variables}, …) nor the package nor git in this folder state it)"
        )
    for each in every:
        if not (_SHORT.fullmatch(each.value) and chosen.value.startswith(each.value)):
            raise ArtifactRefusedError(
                f"{named}: commit: {chosen.evidence} says {chosen.value}, but {each.evidence} "
                f"says {each.value}{_advise(chosen, each)}"
            )
    return chosen


def _advise(*stated: AxisValue) -> str:
    variables = {each.commit for each in CI_SYSTEMS.values()}
    found = next((each.evidence for each in stated if each.evidence in variables), "")
    return f"; if {found} is set for another repository, unset it for this command" if found else ""


def _read_variables(environment: Mapping[str, str], field: str) -> Iterator[AxisValue]:
    """Yield the valid values of a field in the variables of CI systems, each variable once.

    Some systems put "false" into a variable, or the revision of another version control system.
    """
    for name in dict.fromkeys(getattr(each, field) for each in CI_SYSTEMS.values()):
        text = environment.get(name, "").strip()
        found = _FORMS[field].fullmatch(text.lower() if field == "commit" else text)
        if found and _VALID[field](found[1]):
            yield AxisValue(found[1], name)


def name_actor(environment: Mapping[str, str]) -> str:
    """Return the user who started the build, as the CI system states it, or ""."""
    names = (each.actor for each in CI_SYSTEMS.values())
    return next(filter(None, (environment.get(name, "") for name in names)), "")


def _ask_git(folder: Path, field: str, *arguments: str) -> AxisValue | None:
    """Return what git says of the folder, without running commands that a repository configures.

    git itself refuses a repository that belongs to another user.
    """
    kept = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    kept["GIT_NO_LAZY_FETCH"] = "1"  # otherwise a partial clone would run its transport
    harmless = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    command = ["git", *harmless, *arguments]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=kept, capture_output=True, timeout=_GIT_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):  # git is not installed
        return None
    found = ended.stdout.decode("utf-8", "replace").strip()
    if ended.returncode or not _VALID[field](found):
        return None
    return AxisValue(found, _GIT if field == "commit" else "git symbolic-ref HEAD")
