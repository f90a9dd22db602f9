"""Matrices for tests of generated CI files, with functions that read and validate the files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.cells import NIGHTLY, choose_tier, parse_cells
from binary_checks.fleet.ci import generated_files
from binary_checks.fleet.ci.pipeline import CiRun, Pipeline, choose_jobs, make_pipeline

HOSTED = ("github", "circleci")
SCHEMAS: Mapping[str, str] = {
    "github": "vendor.github-workflows",
    "circleci": "vendor.circle-ci",
}
Json = dict[str, Any]

PROJECT = """\
[[cells]]
project = "torch"
system = ["linux-x86_64", "macos-arm64", "windows-amd64"]
python = ["3.11", "3.12"]
variant = ["cpu", "cu126"]
[[leave_out]]
when = "system=macos variant=cu*"
reason = "no CUDA there"
[[gpu]]
when = "variant=cu* system=linux"
[[run]]
when = "system=linux"
profile = "profiles/torch.toml"
options = ["--with-requirements"]
timeout = 600
[[runners]]
when = "variant=cu*"
stage = "gpu"
github = ["self-hosted", "gpu-{variant}"]
circleci = { image = "linux-cuda-12:default", pool = "machine", size = "gpu.nvidia.medium" }
[[runners]]
when = "system=macos"
github = "macos-15"
[ci]
systems = ["github"]
build = ["python -m pip install build", "python -m build --wheel"]
install = "./tools/binary_checks-0.1.0-py3-none-any.whl[fleet,sign]"
store = "s3://results/torch"
built = "test"
published = "release"
policy = "policy.toml"
key = "SIGNING_KEY"
secrets = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
deployment = "publish"
[ci.environment]
AWS_REGION = "eu-central-1"
"""


def demand_tool(name: str) -> str:
    """A program beside this Python, or anywhere; skips without it."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (extra test)")
    return found


def multiply(count: int, *, gpu: bool = True) -> str:
    """A matrix of so many cells, of which most have no GPU stage."""
    names = json.dumps([f"project{number}" for number in range(count)])
    head = f'[[cells]]\nproject = {names}\nsystem = "linux-x86_64"\npython = "3.12"\n'
    stage = '[[gpu]]\nwhen = "project=project*0"\n' if gpu else ""
    rest = PROJECT[PROJECT.index("[[runners]]") :]
    return head + stage + rest.replace("variant=cu*", "id=*").replace("gpu-{variant}", "gpu")


def make(text: str = PROJECT) -> Pipeline:
    return make_pipeline(parse_cells(text.encode(), Path.cwd() / "cells.toml"), Path.cwd())


def write(system: str, pipeline: Pipeline) -> Mapping[str, str]:
    """The constant files of one system."""
    settings = replace(pipeline.settings, systems=(system,))
    files, refused = generated_files.write_files(replace(pipeline, settings=settings))
    assert refused == {}
    return files


def format_jobs(system: str, pipeline: Pipeline, tier: str = NIGHTLY) -> str:
    """What `cells --ci` prints when that tier runs."""
    ids = [cell.id for cell in choose_tier(pipeline.matrix.cells, tier)]
    run = CiRun(event=tier, tier=tier)
    return generated_files.format_jobs(choose_jobs(pipeline, system, ids, run))


def read_outputs(text: str) -> dict[str, str]:
    """The outputs that GitHub reads from a job that plans."""
    return dict(line.split("=", 1) for line in text.splitlines())


def load(text: str) -> Json:
    yaml = pytest.importorskip("yaml")
    document: Json = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


def demand_valid(system: str, folder: Path, *written: Mapping[str, str]) -> None:
    """Hold files against the schema of their system, which check-jsonschema has offline."""
    paths = []
    for number, texts in enumerate(written):
        for path, text in texts.items():
            paths.append(folder / f"{number}-{path.replace('/', '-')}")
            paths[-1].write_text(text, encoding="utf-8")
    command = [demand_tool("check-jsonschema"), f"--builtin-schema={SCHEMAS[system]}"]
    ended = subprocess.run(
        [*command, *map(str, paths)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout[:2000]
