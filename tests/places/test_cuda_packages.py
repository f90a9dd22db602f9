"""Published packages are asked about CUDA without a GPU, and the steps for a GPU run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from binary_checks import examine
from binary_checks.checks.cuda.drivers import (
    cuda_architectures_misreported,
    cuda_version_misreported,
    gpu_claimed_without_one,
    missing_gpu_misreported,
    unusable_without_gpu,
)
from binary_checks.checks.gpu import gpu_result_differs
from binary_checks.declaring import find_checks
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    BinaryConfiguration,
    ClaimSource,
    Conditions,
    CudaReport,
    CudaRequest,
    Distribution,
    Ending,
    GpuReport,
    Measurement,
    NotInspected,
    Problem,
    Step,
)
from binary_checks.probes.ask_module.reader import ask_without_gpu, list_expressions
from binary_checks.probes.gpu_host.reader import HIDDEN
from binary_checks.profile import load_profile, validate
from fixtures.environments import FilledPlace, install_fresh, read_wheel
from tests.oracles.downloads import download
from tests.places.published import ON_LINUX

pytestmark = list(ON_LINUX)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")
ON_THE_CPU = (
    "first_kernel", "every_device", "library_exception", "rnn", "cnn", "convolution", "svd",
    "matmul", "device_assertion", "compilation",
)  # fmt: skip
CHECKS = (
    unusable_without_gpu,
    gpu_claimed_without_one,
    missing_gpu_misreported,
    cuda_version_misreported,
    cuda_architectures_misreported,
)


def install(folder: Any, requirement: str) -> FilledPlace:
    (path,) = download(folder, PLATFORMS, [requirement])
    return install_fresh(read_wheel(path), timeout=600)


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    with install(tmp_path_factory.mktemp("torch"), "torch==2.13.0+cpu") as opened:
        yield opened


@pytest.fixture(scope="module")
def cupy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    with install(tmp_path_factory.mktemp("cupy"), "cupy-cuda13x==14.2.0") as opened:
        yield opened


def judge(environment: FilledPlace, profile: str) -> tuple[CudaReport, list[object]]:
    """What the checks that the profile sets find, without what this host could not hide."""
    chosen = validate(load_profile(profile), find_checks())
    asked = chosen.requests[CudaRequest]
    report = ask_without_gpu(environment, environment.wheel, asked)
    facts = {CudaReport: report, Distribution: environment.wheel, CudaRequest: asked}
    found: list[object] = []
    for check in CHECKS:
        evidence = [facts[kinds[0]] for kinds in check.facts]
        with suppress(NotApplicable):
            found += check(*evidence, **chosen.options.get(check.id, {}))
    return report, [item for item in found if not isinstance(item, NotInspected)]


def test_torch_for_the_cpu_answers_as_it_should(torch: FilledPlace) -> None:
    report, found = judge(torch, "torch")
    assert found == []
    assert report.step.outcome is Ending.OK
    asked = validate(load_profile("torch"), find_checks()).requests[CudaRequest]
    assert isinstance(asked, CudaRequest)
    assert tuple(each.question for each in report.answers) == list_expressions(asked)
    assert report.answers[-1].error == "AssertionError: Torch not compiled with CUDA enabled"


def test_cupy_answers_as_it_should(cupy: FilledPlace) -> None:
    report, found = judge(cupy, "cupy")
    assert found == []
    assert report.answers[-1].error.startswith("CUDARuntimeError: cudaError")


@pytest.mark.parametrize("step", ON_THE_CPU)
def test_a_step_for_the_gpu_runs_on_the_cpu_too(torch: FilledPlace, step: str) -> None:
    request = {"step": step, "device": "cpu"}
    conditions = Conditions(variables=HIDDEN)
    result = torch.run("gpu_torch", request, conditions=conditions)
    assert result.answer.get("state") == "finished", result
    figures = result.answer.get("measured", {})
    measured = tuple(Measurement(step=step, name=name, value=figures[name]) for name in figures)
    report = GpuReport(python="", steps=(Step(name=step),), measurements=measured)
    assert [item for item in gpu_result_differs(report) if isinstance(item, Problem)] == []


@pytest.mark.parametrize("step", ["magma", "cudnn", "absent_device", "memory"])
def test_a_step_that_the_build_has_nothing_for_raises(torch: FilledPlace, step: str) -> None:
    request = {"step": step}
    result = torch.run("gpu_torch", request)
    assert (result.answer["state"], result.answer["stage"]) == ("raised", step)


@pytest.mark.parametrize(
    ("requirement", "accelerator"),
    [
        ("jax-cuda13-plugin==0.10.2", "cuda 13"),
        ("jax-cuda12-plugin==0.10.2", "cuda 12"),
        ("numba-cuda==0.30.4", "cuda 12, cuda 13"),
        ("torchaudio==2.11.0", "cuda 13"),
    ],
)
def test_a_package_without_a_profile_states_its_cuda(
    tmp_path: Any, requirement: str, accelerator: str
) -> None:
    platforms = (*PLATFORMS, "manylinux_2_27_x86_64")
    (path,) = download(tmp_path, platforms, [requirement])
    with examine(path) as facts:
        found = facts.get(BinaryConfiguration).accelerator
    assert found.value == accelerator
    if requirement.startswith("jax"):  # no library that they need has a number of CUDA
        stated = {claim.source for claim in found.claims if claim.value == accelerator}
        assert stated == {ClaimSource.BYTES, ClaimSource.NAME}
