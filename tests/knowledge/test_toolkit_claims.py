from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from binary_checks.knowledge.cuda import compare_versions
from binary_checks.knowledge.library_names import cuda_of_library, cuda_of_requirement
from binary_checks.knowledge.toolkit_claims import (
    claim_by_file_name,
    read_stated,
    rocm_of_label,
    rocm_of_requirement,
)
from binary_checks.model import LibraryVersions, Platform


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("'13.2'", "13.2"),
        ('"13.0.88"', "13.0"),
        ("13.x", "13"),
        ("12", "12"),
        ("126", "12.6"),  # in labels
        ("1208", "12.8"),  # in xformers
        ("12060", "12.6"),  # in CUDA's headers
        ("13020", "13.2"),
        ("12100", "12.10"),
        ("cu126", "12.6"),
        ("None", ""),
        ("null", ""),
        ("'False'", ""),
        ("0", ""),
        ("OFF", ""),
        ("1", None),
        ("ON", None),
        ("''", None),
        ("9" * 5000, None),
    ],
)
def test_a_version_as_files_spell_it(text: str, version: str | None) -> None:
    assert read_stated(text, Platform.CUDA) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [("'6.4.43484-123eb5128'", "6.4"), ("None", ""), ("7.0.2", "7.0"), ("602", None)],
)
def test_a_version_of_rocm(text: str, version: str | None) -> None:
    assert read_stated(text, Platform.ROCM) == version


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("libbitsandbytes_cuda118.so", ["CUDA 11.8"]),
        ("libbitsandbytes_cuda130.dll", ["CUDA 13.0"]),
        ("libbitsandbytes_rocm714.so", ["ROCm 7.14"]),
        ("libdemo-cu12.so", ["CUDA 12"]),
        ("libcudart.so.12", []),
        ("cudart64_12.dll", []),
        ("libtorch_cuda.so", []),
        ("libdemo_sm100.so", []),
    ],
)
def test_what_a_library_says_of_itself(name: str, statements: list[str]) -> None:
    assert [each.statement for each in claim_by_file_name(f"demo/{name}")] == statements


def test_numbers_that_no_version_has_state_nothing() -> None:
    """Python itself refuses to read a number of 5,000 digits."""
    digits = "1" * 5000
    assert cuda_of_library(f"libcudart.so.{digits}") is None
    assert cuda_of_requirement(Requirement(f"nvidia-cuda-runtime==12.{digits}")) == "12"
    assert rocm_of_label(f"rocm{digits}") == rocm_of_label(f"rocm{digits}.1") == ""
    assert rocm_of_label(f"rocm6.{digits}") == "6"
    assert [rocm_of_label(f"rocm7.{minor}") for minor in (8, 9)] == ["7.8", "7"]  # as HIP has it
    assert rocm_of_requirement(Requirement(f"rocm=={digits}")) == ""
    there = LibraryVersions(name="cudnn", installed=f"9.{digits}")
    assert list(compare_versions(there, "9.1", newer=False))
