"""Shipped profiles of packages other than torch: what they run, on the CPU, sound and spoiled.

The steps for a GPU run on the CPU too, with the words for the device exchanged; numba-cuda's run in
its simulator. Several hundred megabytes are downloaded, most of them for tensorflow.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from binary_checks.profile import load_profile
from tests.oracles.downloads import pip
from tests.places.published import ON_LINUX

pytestmark = [*ON_LINUX]
PACKAGES = {
    "onnxruntime": ("onnxruntime==1.32.0",),
    "jax": ("jax==0.10.2", "jaxlib==0.10.2"),
    "numba-cuda": ("numba-cuda==0.30.4", "numba"),
    "tensorflow": ("tensorflow-cpu==2.21.0",),
}
ON_THE_CPU = {
    "onnxruntime": (
        ('[("CUDAExecutionProvider", {"use_tf32": "0"})]', '["CPUExecutionProvider"]'),
        ("CUDAExecutionProvider", "CPUExecutionProvider"),
    ),
    "jax": (('devices("gpu")', 'devices("cpu")'),),
    "numba-cuda": (),
    "tensorflow": (("/GPU:", "/CPU:"), ('("GPU")', '("CPU")')),
}
"""The words for a device, exchanged in this order."""
SPOILED = {
    "onnxruntime": """
import onnxruntime
class Session(onnxruntime.InferenceSession):
    def run(self, *given):
        return [each * 1.25 for each in super().run(*given)]
onnxruntime.InferenceSession = Session
""",
    "jax": """
import jax
compiled = jax.jit
def spoil(function):
    return lambda *given: jax.tree.map(lambda x: x * 1.25, compiled(function)(*given))
jax.jit = spoil
unspoilt = jax.device_put
jax.device_put = lambda x, *where: unspoilt(x, *where) * 1.25
""",
    "numba-cuda": """
import numpy
from numba import cuda
class Grid:
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, shape):
        def run(*given):
            self.kernel[shape](*given)
            given[-1][:] *= 1.25
        return run
compiled = cuda.jit
cuda.jit = lambda function: Grid(compiled(function))
""",
    "tensorflow": """
import tensorflow
for owner, name in ((tensorflow, "matmul"), (tensorflow, "sin"), (tensorflow, "reduce_sum"),
                    (tensorflow.nn, "conv2d")):
    def spoil(*given, function=getattr(owner, name), **named):
        return function(*given, **named) * 1.25
    setattr(owner, name, spoil)
""",
}
COUNTING = {"devices"}
"""Snippets that compute nothing."""


def codes(profile: str, table: str) -> dict[str, str]:
    probes = load_profile(profile).probes[table]
    found: dict[str, str] = probes["code"] if table == "snippets" else probes["snippets"]
    return found


CASES = [(profile, table, name)
    for profile in PACKAGES for table in ("snippets", "gpu") for name in codes(profile, table)
]  # fmt: skip


@cache
def site(folder: Path, profile: str) -> Path:
    target = folder / profile
    pip("install", "--target", target, *PACKAGES[profile])
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frameworks")


def run(folder: Path, case: tuple[str, str, str], before: str = "") -> tuple[int, Any, str]:
    """The exit status of a program of a profile, its figures, and its errors."""
    profile, table, name = case
    code = codes(profile, table)[name]
    module = load_profile(profile).probes["gpu"]["module"]
    begin = f"import {module}\n" if table == "gpu" else ""
    for word, other in ON_THE_CPU[profile] if table == "gpu" else ():
        code = code.replace(word, other)
    end = "\nimport json\nprint(json.dumps(globals().get('measured')))"
    done = subprocess.run(
        (sys.executable, "-c", f"{before}\n{begin}{code}{end}"),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(site(folder, profile)),
            "NUMBA_ENABLE_CUDASIM": "1",
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    figures = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return done.returncode, figures, done.stderr


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_published_package_for_the_cpu_is_sound(folder: Path, case: tuple[str, str, str]) -> None:
    status, figures, errors = run(folder, case)
    assert status == 0, errors
    for name, value in (figures or {}).items():
        assert value < {"float64": 1e-12, "float32": 1e-5}.get(name, 100)
    assert bool(figures) is (case[1] == "gpu")


@pytest.mark.parametrize("case", [c for c in CASES if c[2] not in COUNTING], ids="-".join)
def test_a_wrong_result_is_found(folder: Path, case: tuple[str, str, str]) -> None:
    status, figures, errors = run(folder, case, SPOILED[case[0]])
    if status:
        assert "AssertionError" in errors, errors
    else:
        assert max(figures.values()) > 0.2


def test_every_profile_lists_devices_and_computes() -> None:
    for profile in PACKAGES:
        for name in ("devices", "matmul" if profile != "numba-cuda" else "simulated"):
            assert ast.parse(codes(profile, "snippets")[name]).body
        assert {"first_kernel", "matmul"} <= codes(profile, "gpu").keys()
