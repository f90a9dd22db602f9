"""Runs the jobs of generated workflows here: their scripts by bash, artifacts as folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class GithubShell:
    """What GitHub would have: where artifacts are kept, inputs, and secrets."""

    repository: Path  # what a checkout has
    artifacts: Path
    inputs: Mapping[str, object] = field(default_factory=dict)
    matrix: Mapping[str, object] = field(default_factory=dict)  # the row of the job
    secrets: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  # replaces that of jobs

    def run(self, job: Mapping[str, Any], folder: Path) -> tuple[int, str]:
        """Run a job in an empty folder: the status of the first step that failed, and the log."""
        folder.mkdir()
        status, log = 0, ""
        for step in job["steps"]:
            regardless = "!cancelled()" in str(step.get("if", ""))
            if status and not regardless:
                continue
            ended, said = self._step(step, job, folder)
            status, log = status or ended, f"{log}{said}"
        return status, log

    def _step(
        self, step: Mapping[str, Any], job: Mapping[str, Any], folder: Path
    ) -> tuple[int, str]:
        if "uses" in step:
            return self._use(step["uses"].split("@")[0], step["with"], folder), ""
        given = {**job.get("env", {}), **step.get("env", {})}
        values = {name: self._fill(str(value)) for name, value in given.items()}
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**_own_environment(), **values, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        return ended.returncode, f"## {step['name']}\n{ended.stdout}"

    def _use(self, action: str, given: Mapping[str, Any], folder: Path) -> int:
        """What actions do, as far as files go."""
        if action == "actions/checkout":
            shutil.copytree(self.repository, folder, dirs_exist_ok=True)
        elif action == "actions/download-artifact":
            kept = self.artifacts / self._fill(given["pattern"])
            if kept.exists():
                shutil.copytree(kept, folder / given["path"], dirs_exist_ok=True)
        elif action == "actions/upload-artifact":
            if (folder / given["path"]).exists():
                shutil.copytree(folder / given["path"], self.artifacts / self._fill(given["name"]))
        elif action != "actions/setup-python":  # this Python stands for it
            raise AssertionError(f"the tests know nothing of {action}")
        return 0

    def _fill(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            kind, _, name = found[1].partition(".")
            known = {"inputs": self.inputs, "matrix": self.matrix, "secrets": self.secrets}
            return str(known[kind][name])

        return _EXPRESSION.sub(value, text)


def _own_environment() -> dict[str, str]:
    """This Python's programs first, and nothing that a CI system has set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    beside = str(Path(sys.executable).parent)
    return {**kept, "PATH": os.pathsep.join([beside, kept.get("PATH", os.defpath)])}
