"""Matrices that tests of generated CI have in common, and the programs that judge files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

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
options = ["--binary-with-requirements"]
timeout = 600
[[runners]]
when = "variant=cu*"
stage = "gpu"
github = ["self-hosted", "gpu-{variant}"]
gitlab = { labels = ["gpu"], image = "python:{job_python}" }
circleci = { image = "linux-cuda-12:default", pool = "machine", size = "gpu.nvidia.medium" }
azure = { pool = "gpus" }
[[runners]]
when = "system=macos"
github = "macos-15"
azure = { pool = "macs" }
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
