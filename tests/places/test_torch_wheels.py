"""PyTorch's wheels, for CUDA and for the CPU, pass every check of their profile without a GPU.

The one for CUDA is installed with NVIDIA's libraries: 3 GB are downloaded, two environments of 5 GB
each are made below TMPDIR, and it takes 5 to 10 minutes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path
from shutil import which

import pytest

from binary_checks.declaring import find_checks
from binary_checks.profile import load_profile
from tests.oracles.downloads import pip
from tests.places.published import ON_LINUX

pytestmark = [
    *ON_LINUX,
    pytest.mark.skipif(bool(find_library("cuda")), reason="this host has a driver"),
    pytest.mark.skipif(not which("c++"), reason="torch.compile needs a C++ compiler"),
]
_OUTCOME = re.compile(r"^\S+\.whl::(?P<check>\S+) (?P<outcome>[A-Z]+)\b", re.MULTILINE)
OF_OTHERS = {"gpu", "consumer", "conda"}
RUNNING = {check for check in find_checks() if check.runs_package and check.family not in OF_OTHERS}
ELSEWHERE = {"gil-enabled-again", "image-newer-than-tag", "object-does-not-load"}
"""Checks of what there is not here: free threading, and an image."""
FOR_ROCM = {"rocm-version-misreported"}
FOR_CUDA = {
    "cuda-part-missing",
    "cuda-libraries-disagree",
    "driver-refusal-fatal",
    "driver-refusal-misreported",
    "nvrtc-fails",
    "ptx-assembly-fails",
    "triton-fails",
}


def judge(folder: Path, requirement: str) -> tuple[int, dict[str, str], str]:
    """The exit status, the outcome of each check, and the output."""
    wheels = folder / "wheels"
    pip("download", "--only-binary=:all:", "--dest", wheels, requirement)
    (wheel,) = wheels.glob("torch-*.whl")
    wheel = wheel.rename(folder / wheel.name)
    options = ("--binary-profile", "torch", "--binary-with", str(wheels), "-v")
    done = subprocess.run(
        (sys.executable, "-m", "binary_checks", str(wheel), *options),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = {match["check"]: match["outcome"] for match in _OUTCOME.finditer(done.stdout)}
    return done.returncode, outcomes, done.stdout + done.stderr


def selected() -> set[str]:
    """The checks of the profile that need the package to be run, and no GPU."""
    profile = load_profile("torch")
    return {check.id for check in RUNNING if profile.selects(check)}


def test_a_build_for_cuda_is_proven_where_there_is_no_gpu(tmp_path: Path) -> None:
    status, outcomes, output = judge(tmp_path, "torch==2.15.0")
    assert status == 0, output
    ran = {check for check in selected() if outcomes[check] in {"PASSED", "XFAIL"}}
    assert selected() - ran == ELSEWHERE | FOR_ROCM, output
    assert {outcomes[check] for check in FOR_CUDA} == {"PASSED"}
    on_a_gpu = {check.id for check in find_checks() if check.family == "gpu"}
    assert {outcomes[check] for check in on_a_gpu} == {"SKIPPED"}
    assert "not inspected: no NVIDIA driver on this host (gpu)" in output
    assert "were assumed to exist (libcuda.so.1)" in output


def test_a_build_for_the_cpu_passes_too(tmp_path: Path) -> None:
    status, outcomes, output = judge(tmp_path, "torch==2.13.0+cpu")
    assert status == 0, output
    ran = {check for check in selected() if outcomes[check] in {"PASSED", "XFAIL"}}
    assert selected() - ran == ELSEWHERE | FOR_ROCM | FOR_CUDA, output
    assert "torch.version.cuda is None: the build is not for CUDA" in output
