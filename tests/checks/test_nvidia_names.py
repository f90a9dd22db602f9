from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from binary_checks.knowledge.library_names import (
    cuda_of_label,
    cuda_of_library,
    cuda_of_name,
    cuda_of_requirement,
    is_cuda_library,
    is_driver_library,
)


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("libcudart.so.11.0", 11),
        ("libcudart.so.13", 13),
        ("libcudart.faf08d9a.so.13", 13),
        ("libnvjpeg-1a359ba7.so.13.0.1.86", 13),
        ("libcublasLt.so.12", 12),
        ("libnppig.so.12", 12),
        ("libcufft.so.11", 12),
        ("libcusolver.so.11", None),
        ("libcusparse.so.12", None),
        ("libcudnn.so.9", None),
        ("cudart64_110.dll", 11),
        ("cudart64_12.dll", 12),
        ("cublasLt64_13.dll", 13),
        ("nvrtc64_112_0.dll", 11),
        ("nvJitLink_120_0.dll", 12),
        ("cufft64_11.dll", 12),
        ("libcudart-c64a25f3.so.12", 12),
        ("libcufft-8d8d2e2f.so.11.3.0.4", 12),
        ("libcudnn_graph-0c5ab1e2.so.9", None),
        ("libnvrtc-builtins-07fb3db5.so.12.9", 12),
        ("libnvrtc.alt.so.12", 12),
        ("nvrtc-builtins64_135.dll", 13),
        (f"cudart64_12-{'0a' * 16}.dll", 12),
        (f"cudnn_ops64_9-{'0a' * 16}.dll", None),
        (f"cusparse64_11-{'0a' * 16}.dll", 11),
    ],
)
def test_a_librarys_number_tells_its_cuda_where_there_is_but_one(
    name: str, major: int | None
) -> None:
    assert cuda_of_library(name) == major
    assert is_cuda_library(name)


@pytest.mark.parametrize(
    "name", ["libcurl.so.4", "libc.so.6", "libcudf.so", "libnuma.so.1", "libcuda.so.1", "uv.dll"]
)
def test_other_libraries_are_not_cudas(name: str) -> None:
    assert not is_cuda_library(name)


def test_the_drivers_libraries_are_known_in_any_case() -> None:
    assert is_driver_library("libcuda.so.1")
    assert is_driver_library("nvcuda.DLL")
    assert is_driver_library("libcuda-1a2b3c4d.so.1")
    assert is_driver_library(f"nvml-{'0a' * 16}.dll")
    assert not is_driver_library("libcudart.so.12")


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("nvidia-cublas-cu12", 12), ("cupy-cuda13x", 13), ("nvidia-dali-cuda120", 12),
        ("jax-cuda12-plugin", 12), ("cuda-python", None), ("cucim", None), ("demo-cu", None),
    ],
)  # fmt: skip
def test_a_distributions_name_tells_its_cuda(name: str, major: int | None) -> None:
    assert cuda_of_name(name) == major


def test_a_version_label_tells_its_cuda() -> None:
    assert cuda_of_label("cu126") == "12.6"
    assert cuda_of_label("cu12.torch2") == "12"
    assert cuda_of_label("cpu") == ""
    assert cuda_of_label("") == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("cuda-toolkit[cudart]==13.2.2", "13.2"),
        ("nvidia-cuda-runtime~=13.0", "13.0"),
        ("nvidia-cuda-runtime==13.*", "13"),
        ("nvidia-cuda-runtime-cu12==12.6.77", "12.6"),
        ("nvidia-cublas-cu12==12.6.4.1", "12"),
        ("nvidia-cuda-runtime>=12", ""),
        ("numpy==13.0", ""),
    ],
)
def test_a_requirement_tells_its_cuda(text: str, version: str) -> None:
    assert cuda_of_requirement(Requirement(text)) == version
