from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.cuda_versions import cuda_in_cpu_build, cuda_versions_differ
from binary_checks.errors import NotApplicable
from binary_checks.model import ElfFile, Finding, Linkage, Problem
from fixtures.linking import EXTENSION, extension, library, link, target
from fixtures.values import wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"


def judge(
    *objects: ElfFile,
    name: str = "demo-1.0",
    requires: tuple[str, ...] = (),
    linkage: Linkage | None = None,
    check: Any = cuda_versions_differ,
) -> list[Finding]:
    metadata = tuple(("Requires-Dist", item) for item in requires)
    subject = wheel(f"{name}-{TAGS}", objects=objects, metadata=metadata)
    return list(check(subject, linkage or link(*objects), target()))


def test_a_library_of_another_cuda_than_the_label_says() -> None:
    assert judge(extension("libcudart.so.13"), name="demo-1.0+cu126") == [
        Problem(
            path=EXTENSION,
            sentence="needs libcudart.so.13, of CUDA 13, while the version label +cu126 says CUDA "
            "12.6: libraries installed for one do not include the other",
        )
    ]


@pytest.mark.parametrize("name", ["demo_cu12-1.0", "demo_cuda12x-1.0", "demo_cuda120-1.0"])
def test_a_name_says_the_version_too(name: str) -> None:
    assert len(judge(extension("libcublas.so.13"), name=name)) == 1
    assert judge(extension("libcublas.so.12"), name=name) == []


def test_objects_that_need_the_same_library_are_counted() -> None:
    other = library("demo/libother.so", "libcufft.so.12")
    (finding,) = judge(extension("libcufft.so.12"), other, name="demo_cu12-1.0")
    assert isinstance(finding, Problem)
    assert finding.sentence.startswith("needs libcufft.so.12 (as do 1 more), of CUDA 13, while")


@pytest.mark.parametrize(
    "requirement",
    [
        "nvidia-cublas-cu13>=13.1",
        "nvidia-cuda-runtime==13.0.48",
        "nvidia-cuda-runtime-cu12==12.4.127",
        "cuda-toolkit[cudart]==13.2.2; sys_platform == 'linux'",
    ],
)
def test_requirements_of_another_cuda_than_the_label_says(requirement: str) -> None:
    (finding,) = judge(extension(), name="demo-1.0+cu126", requires=(requirement,))
    assert isinstance(finding, Problem)
    assert finding.sentence.startswith("the version label +cu126 says CUDA 12.6, the requirement ")


@pytest.mark.parametrize(
    "requirements",
    [
        ("nvidia-cublas-cu12==12.6.4.1", "nvidia-cuda-runtime-cu12==12.6.77"),
        ("nvidia-cublas==13.1; sys_platform == 'win32'", "cupy-cuda13x; extra == 'test'"),
        ("nvidia-cublas-cu13; platform_system == 'Windows'", "nvidia-cuda-runtime>=12"),
    ],
)
def test_requirements_that_agree_or_do_not_apply_are_fine(requirements: tuple[str, ...]) -> None:
    objects = (extension("libcudart.so.12"),)
    assert judge(*objects, name="demo-1.0+cu126", requires=requirements) == []


def test_one_process_must_not_get_two_runtimes() -> None:
    torch = library("torch/lib/libtorch_cuda.so", "libcudart.so.13")
    beside = wheel("torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(torch,))
    module = extension("libtorch_cuda.so", "libcudart.so.12", rpath=("$ORIGIN/../torch/lib",))
    assert judge(module, linkage=link(module, others=(beside,))) == [
        Problem(
            path=EXTENSION,
            sentence=f"loads CUDA 12 (libcudart.so.12, needed by {EXTENSION}) and CUDA 13 "
            "(libcudart.so.13, needed by wheel:torch:torch/lib/libtorch_cuda.so): the two "
            "runtimes share neither memory nor streams",
        )
    ]


def test_what_is_loaded_before_counts_too() -> None:
    """As torch is, which the extensions for it find without a search path."""
    torch = library("torch/lib/libtorch_cuda.so", "libcudart.so.13")
    beside = wheel("torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(torch,))
    module = extension("libtorch_cuda.so", "libcudart.so.12")
    (finding,) = judge(module, linkage=link(module, others=(beside,)))
    assert isinstance(finding, Problem)
    assert "needed by wheel:torch:torch/lib/libtorch_cuda.so" in finding.sentence


def test_a_package_may_have_libraries_for_several_cudas() -> None:
    several = (
        library("demo/libdemo_cuda118.so", "libcudart.so.11.0"),
        library("demo/libdemo_cuda126.so", "libcudart.so.12"),
        library("demo/libdemo_cuda130.so", "libcudart.so.13"),
    )
    assert judge(*several) == []


def test_a_library_whose_number_stands_for_several_cudas_says_nothing() -> None:
    with pytest.raises(NotApplicable, match="nothing in it names a CUDA version"):
        judge(extension("libcusparse.so.12", "libcurand.so.10"))


@pytest.mark.parametrize("name", ["demo-1.0+cpu", "demo_cpu-1.0"])
def test_a_cpu_build_must_not_need_cuda(name: str) -> None:
    found = judge(
        extension("libcudart.so.12", "libcuda.so.1"),
        name=name,
        requires=("nvidia-nccl-cu12; platform_system == 'Linux'", "numpy"),
        check=cuda_in_cpu_build,
    )
    assert [finding.sentence for finding in found if isinstance(finding, Problem)] == [
        "needs libcuda.so.1, but the package is CPU-only",
        "needs libcudart.so.12, but the package is CPU-only",
        "requires nvidia-nccl-cu12, but it is CPU-only",
    ]


def test_a_cpu_build_without_cuda_is_fine() -> None:
    objects = (extension("libc.so.6", "libcurl.so.4"),)
    assert judge(*objects, name="demo-1.0+cpu", check=cuda_in_cpu_build) == []


def test_a_package_that_does_not_call_itself_one_for_the_cpu_is_not_held_to_it() -> None:
    with pytest.raises(NotApplicable, match="neither its name nor its version label says"):
        judge(extension("libcudart.so.12"), check=cuda_in_cpu_build)
