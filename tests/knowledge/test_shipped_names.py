"""The distributions that ship a library are data, with a source for each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks.knowledge import library_names
from binary_checks.knowledge.library_names import (
    fills_prefix,
    find_known_shippers,
    find_left_out,
    find_owner,
    may_be_required,
    may_have,
)
from binary_checks.profile import read_toml

TABLES: dict[str, Any] = read_toml(
    Path(library_names.__file__).with_name("shipped_names.toml"), "tables"
)


def test_each_row_says_where_somebody_looked() -> None:
    rows = [row for table in TABLES.values() for row in table]
    assert all(row["source"].strip() for row in rows)
    assert all({"distributions", "libraries"} & row.keys() for row in rows)


@pytest.mark.parametrize(
    ("needed", "shipper"),
    [
        ("libc10.so", "torch"),
        ("@rpath/libtorch_cpu.dylib", "torch"),
        ("libarrow.so.2600", "pyarrow"),
        ("libQt6Core.so.6", "pyside6-essentials"),
        ("hdf5.dll", "h5py"),
    ],
)
def test_what_a_distribution_has_is_known_by_name(needed: str, shipper: str) -> None:
    every = ("torch", "pyarrow", "pyside6-essentials", "h5py", "numpy")
    assert find_known_shippers(needed, every) == (shipper,)


def test_some_have_nothing_else_for_others_and_intel_s_wheels_fill_lib() -> None:
    assert not may_have("numpy", "libfoo.so")
    assert may_have("foo-libs", "libfoo.so")
    assert may_have("nvidia-cublas", "libcublas.so.13")
    assert not may_have("nvidia-cublas", "libfoo.so")
    assert fills_prefix("intel-openmp")
    assert not fills_prefix("intelligence")


@pytest.mark.parametrize("needed", ["OpenCL.dll", "libEGL.so.1", "libX11-xcb.so.1"])
def test_what_drivers_and_systems_have_no_requirement_has(needed: str) -> None:
    assert not may_be_required(needed)
    assert may_be_required("libfoo.so.1")


@pytest.mark.parametrize(
    ("needed", "requirements", "owner"),
    [
        # faiss_gpu_cu12 1.14.1 with one of its two requirements
        ("libcudart.so.12", "nvidia-cublas-cu12 numpy packaging", "nvidia-cuda-runtime-cu12"),
        ("libcublasLt.so.12", "nvidia-cuda-runtime-cu12 numpy", "nvidia-cublas-cu12"),
        # torch 2.15 without one of its requirements, or of their extras
        (
            "libcudnn.so.9",
            "nvidia-nccl-cu13 cuda-toolkit[cublas,cufft] triton",
            "nvidia-cudnn-cu13",
        ),
        ("libcufft.so.12", "nvidia-nccl-cu13 cuda-toolkit[cublas,cudart]", "nvidia-cufft"),
        ("libcufft.so.12", "nvidia-nccl-cu13 cuda-toolkit[cublas,cufft]", ""),
        ("libcufft.so.12", "nvidia-nccl-cu13 cuda-toolkit[all]", ""),
        # through requirements of requirements
        ("libcublas.so.12", "nvidia-cudnn-cu12", ""),
        ("libnvJitLink.so.13", "nvidia-nccl-cu13 nvidia-cusolver", ""),
        ("libcufft.so.12", "nvidia-nccl-cu13 torch", ""),
        ("libcufft.so.12", "nvidia-nccl-cu13 cuda-toolkit[?]", ""),  # that a given wheel requires
        ("libcufft.so.12", "nvidia-nccl-cu13 foo", ""),  # nobody knows what that requires
        # for another CUDA, or for the user's own
        ("libcufft.so.12", "nvidia-nccl-cu12", ""),
        ("libcudart.so.11.0", "nvidia-cublas-cu12", ""),
        ("libcudart.so.12", "numpy", ""),
        ("libfoo.so.1", "nvidia-cublas-cu12", ""),
    ],
)
def test_a_library_is_left_out_if_nothing_leads_to_it_but_others_of_its_family_are_required(
    needed: str, requirements: str, owner: str
) -> None:
    assert find_left_out(needed, frozenset(requirements.split())) == owner


def test_the_owner_of_a_library_is_a_requirement() -> None:
    assert find_owner("libcudnn.so.9", ("nvidia-cudnn-cu13", "numpy")) == "nvidia-cudnn-cu13"
    assert find_owner("libcudnn.so.9", ("nvidia-nccl-cu13",)) == ""
