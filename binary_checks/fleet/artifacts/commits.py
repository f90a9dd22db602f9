"""From which commit something was built: by the user, the CI system, the package, or git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import ArtifactRefusedError, ProfileError
from binary_checks.lines import cut, one_line

VARIABLES = (
    "GITHUB_SHA",
    "CI_COMMIT_SHA",  # GitLab, Woodpecker
    "CIRCLE_SHA1",
    "BUILD_SOURCEVERSION",  # Azure Pipelines
    "BUILDKITE_COMMIT",
    "TRAVIS_COMMIT",
    "APPVEYOR_REPO_COMMIT",
    "CIRRUS_CHANGE_IN_REPO",
    "DRONE_COMMIT_SHA",
    "BITBUCKET_COMMIT",
    "CODEBUILD_RESOLVED_SOURCE_VERSION",
    "GIT_COMMIT",  # Jenkins
)
"""In the order in which they are asked; all that are set must agree."""
_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{7,64}")
_LONGEST = 10.0  # seconds for git


class StatedCommit(NamedTuple):
    """A commit, and who says it."""

    commit: str
    evidence: str


def choose_commit(
    given: str,
    environment: Mapping[str, str],
    package: Sequence[tuple[str, str]],
    folder: Path,
    named: str,
) -> StatedCommit:
    """The commit of a file: what the user gives, a variable, the package itself, or git says.

    Raises ProfileError where nobody says it, and ArtifactRefusedError where two contradict each
    other.
    """
    stated = [*_read_given(given), *_read_variables(environment)]
    said = [StatedCommit(commit, f"{member} of the package") for member, commit in package]
    every = [*stated, *said]
    full = next((each for each in every if _FULL.fullmatch(each.commit)), None)
    chosen = full or _ask_git(folder)
    if chosen is None:
        variables = ", ".join(VARIABLES[:4])
        raise ProfileError(
            f"{named}: from which commit was it built? Give --commit; no variable ({variables}, …) "
            "says it, nor the package, nor git in this folder"
        )
    for each in every:
        if not _agree(chosen.commit, each.commit):
            raise ArtifactRefusedError(
                f"{named}: commit: {chosen.evidence} says {chosen.commit}, but {each.evidence} "
                f"says {each.commit}{_advise(chosen, each)}"
            )
    return chosen


def _advise(*stated: StatedCommit) -> str:
    found = next((each.evidence for each in stated if each.evidence in VARIABLES), "")
    return f"; unset {found} for this command if it is about another repository" if found else ""


def _read_given(given: str) -> list[StatedCommit]:
    text = given.strip().lower()
    if given and not _FULL.fullmatch(text):
        shown = cut(one_line(repr(given)), 80)
        raise ProfileError(f"--commit: {shown} is not a full commit hash of 40 or 64 hex digits")
    return [StatedCommit(text, "--commit")] if text else []


def _read_variables(environment: Mapping[str, str]) -> list[StatedCommit]:
    """Those that are a commit: some hold the number of another system's revision."""
    texts = ((name, environment.get(name, "").strip().lower()) for name in VARIABLES)
    return [StatedCommit(text, name) for name, text in texts if _FULL.fullmatch(text)]


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) if _SHORT.fullmatch(other) else False


def _ask_git(folder: Path) -> StatedCommit | None:
    """The commit that is checked out; reading it runs nothing that a repository configures.

    git itself refuses a repository that belongs to somebody else.
    """
    kept = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    kept["GIT_NO_LAZY_FETCH"] = "1"  # of a partial clone, which would call its transport
    harmless = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    command = ["git", *harmless, "rev-parse", "--verify", "HEAD"]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=kept, capture_output=True, timeout=_LONGEST, check=False
        )
    except (OSError, subprocess.SubprocessError):  # there is no git
        return None
    found = ended.stdout.decode("ascii", "replace").strip()
    if ended.returncode or not _FULL.fullmatch(found):
        return None
    return StatedCommit(found, "git rev-parse HEAD")
