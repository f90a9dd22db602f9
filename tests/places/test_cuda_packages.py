"""Published packages are asked about CUDA without a GPU, and the steps for a GPU run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from binary_checks.checks.cuda.without_gpu import (
    cuda_architectures_misreported,
    cuda_version_misreported,
    gpu_claimed_without_one,
    missing_gpu_misreported,
    unusable_without_gpu,
)
from binary_checks.checks.gpu.results import gpu_result_differs
from binary_checks.model import CudaReport, Ending, GpuReport, Measurement, NotInspected, Step
from binary_checks.places.running import Conditions, run_probe
from binary_checks.places.venv import Environment, open_environment
from binary_checks.probes.ask_module.reader import ask_without_gpu, read_questions
from binary_checks.probes.gpu_host.reader import HIDDEN
from binary_checks.profile.reading import load_profile
from fixtures.environments import PYTHON, read_wheel
from tests.oracles.downloads import download
from tests.places.published import ON_LINUX

pytestmark = list(ON_LINUX)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")
ON_THE_CPU = (
    "first_kernel", "every_device", "library_exception", "rnn", "cnn", "convolution", "svd",
    "matmul", "device_assertion", "compilation",
)  # fmt: skip
CHECKS = {
    "gpu-claimed-without-one": gpu_claimed_without_one,
    "missing-gpu-misreported": missing_gpu_misreported,
    "cuda-version-misreported": cuda_version_misreported,
    "cuda-architectures-misreported": cuda_architectures_misreported,
}


def install(folder: Any, requirement: str) -> Environment:
    (path,) = download(folder, PLATFORMS, [requirement])
    return open_environment(read_wheel(path), python=PYTHON, timeout=600)


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with install(tmp_path_factory.mktemp("torch"), "torch==2.13.0+cpu") as opened:
        yield opened


@pytest.fixture(scope="module")
def cupy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with install(tmp_path_factory.mktemp("cupy"), "cupy-cuda13x==14.2.0") as opened:
        yield opened


def judge(environment: Environment, profile: str) -> tuple[CudaReport, list[object]]:
    """What the checks that the profile sets find, without what this host could not hide."""
    options = load_profile(profile).options
    report = ask_without_gpu(environment, read_questions(options), timeout=300)
    found: list[object] = list(unusable_without_gpu(report))
    for check_id, check in CHECKS.items():
        if check_id in options:
            chosen = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in options[check_id].items()
            }
            evidence = (report, environment.wheel)[: len(check.facts)]
            found += check(*evidence, **chosen)
    return report, [item for item in found if not isinstance(item, NotInspected)]


def test_torch_for_the_cpu_answers_as_it_should(torch: Environment) -> None:
    report, found = judge(torch, "torch")
    assert found == []
    assert report.step.outcome is Ending.OK
    asked = read_questions(load_profile("torch").options).expressions
    assert tuple(each.question for each in report.answers) == asked
    assert report.answers[-1].error == "AssertionError: Torch not compiled with CUDA enabled"


def test_cupy_answers_as_it_should(cupy: Environment) -> None:
    report, found = judge(cupy, "cupy")
    assert found == []
    assert report.answers[-1].error.startswith("CUDARuntimeError: cudaError")


@pytest.mark.parametrize("step", ON_THE_CPU)
def test_a_step_for_the_gpu_runs_on_the_cpu_too(torch: Environment, step: str) -> None:
    request = {"step": step, "device": "cpu", "site_packages": str(torch.site_packages)}
    conditions = Conditions(variables=HIDDEN)
    result = run_probe(torch.python, "gpu_torch", request, timeout=300, conditions=conditions)
    assert result.answer.get("state") == "finished", result
    figures = result.answer.get("measured", {})
    measured = tuple(Measurement(step=step, name=name, value=figures[name]) for name in figures)
    report = GpuReport(python="", steps=(Step(name=step),), measurements=measured)
    assert [item for item in gpu_result_differs(report) if not isinstance(item, NotInspected)] == []


@pytest.mark.parametrize("step", ["magma", "cudnn", "absent_device", "memory"])
def test_a_step_that_the_build_has_nothing_for_raises(torch: Environment, step: str) -> None:
    request = {"step": step, "site_packages": str(torch.site_packages)}
    result = run_probe(torch.python, "gpu_torch", request, timeout=300)
    assert (result.answer["state"], result.answer["stage"]) == ("raised", step)
