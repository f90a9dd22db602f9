"""Run the jobs of generated workflows on this host: scripts in bash, artifacts as folders."""

from __future__ import annotations

import json
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
_ROW = re.compile(r"fromJSON\(inputs\.row\)\.(\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class GithubShell:
    """What GitHub would have: where artifacts are kept, inputs, and secrets."""

    repository: Path  # what a checkout has
    artifacts: Path
    row: Mapping[str, object] = field(default_factory=dict)  # of a cell, or of a group
    needs: dict[str, Mapping[str, str]] = field(default_factory=dict)  # outputs of jobs
    secrets: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  # replaces that of jobs

    def run(self, document: Mapping[str, Any], name: str, folder: Path) -> tuple[int, str]:
        """Run a job in an empty folder: the status of the first step that failed, and the log."""
        folder.mkdir()
        job = document["jobs"][name]
        common = {**document.get("env", {}), **job.get("env", {})}
        status, log = 0, ""
        outputs: dict[str, str] = {}
        for step in job["steps"]:
            regardless = "!cancelled()" in str(step.get("if", ""))
            if status and not regardless:
                continue
            ended, said = self._step(step, common, folder, outputs)
            status, log = status or ended, f"{log}{said}"
        self.needs[name] = outputs
        return status, log

    def _step(
        self,
        step: Mapping[str, Any],
        common: Mapping[str, str],
        folder: Path,
        outputs: dict[str, str],
    ) -> tuple[int, str]:
        if "uses" in step:
            return self._use(step["uses"].split("@")[0], step["with"], folder), ""
        output = folder.with_name(f"{folder.name}.output")
        output.write_text("", encoding="utf-8")
        given = {**common, **step.get("env", {})}
        values = {name: self._fill(str(value), outputs) for name, value in given.items()}
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={
                **_own_environment(),
                **values,
                **self.environment,
                "GITHUB_OUTPUT": str(output),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        lines = output.read_text(encoding="utf-8").splitlines()
        outputs.update(line.split("=", 1) for line in lines)
        return ended.returncode, f"## {step['run']}\n{ended.stdout}"

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

    def _fill(self, text: str, outputs: Mapping[str, str] | None = None) -> str:
        """The text with values for those expressions that generated workflows have."""

        def value(found: re.Match[str]) -> str:
            expression = _ROW.sub(r"matrix.row.\1", found[1])
            kind, _, name = expression.partition(".")
            if kind == "matrix":
                return str(self.row[name.removeprefix("row.")])
            if kind == "secrets":
                return self.secrets[name]
            if kind == "steps":
                return (outputs or {})[name.rpartition(".")[2]]
            if kind == "needs":
                job, _, output = name.partition(".outputs.")
                return self.needs[job][output]
            return ""  # what an event lacks

        return _EXPRESSION.sub(value, text)


def read_rows(text: str) -> list[Any]:
    """The rows in a JSON output, of chunks too."""
    rows: list[Any] = []
    for each in json.loads(text):
        rows += json.loads(each) if isinstance(each, str) else [each]
    return rows


def _own_environment() -> dict[str, str]:
    """This Python's programs first, and nothing that a CI system has set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    beside = str(Path(sys.executable).parent)
    return {**kept, "PATH": os.pathsep.join([beside, kept.get("PATH", os.defpath)])}
