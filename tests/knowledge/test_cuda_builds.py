"""Builds for the CPU are recognised by their names and contents."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import require_gpu_build, require_trace_of_gpu
from binary_checks.model import OpenedNames, Package
from fixtures.linking import library
from fixtures.values import elf_file, wheel

TAG = "cp311-cp311-manylinux_2_28_x86_64.whl"


def torch(*objects: Any, requires: tuple[str, ...] = (), label: str = "") -> Package:
    metadata = tuple(("Requires-Dist", text) for text in requires)
    return wheel(f"torch-2.15.0{label}-{TAG}", objects=objects, metadata=metadata)


def test_a_label_or_a_name_says_that_a_build_is_for_the_cpu() -> None:
    with pytest.raises(NotApplicable, match=r"for the CPU: the version label \+cpu says so"):
        require_gpu_build(torch(label="+cpu"))
    with pytest.raises(NotApplicable, match="for the CPU: its name says so"):
        require_gpu_build(wheel(f"faiss_cpu-1.0-{TAG}"))
    require_gpu_build(torch(label="+cu132"))
    require_gpu_build(torch())


def test_one_without_a_trace_of_a_gpu_is_for_the_cpu_too() -> None:
    with pytest.raises(NotApplicable, match="for the CPU: no object contains device code"):
        require_trace_of_gpu(torch(elf_file(), requires=("filelock", "sympy>=1.13.3")))


@pytest.mark.parametrize(
    "package",
    [
        torch(library("torch/lib/libtorch_cuda.so", "libcudart.so.13")),
        torch(elf_file(opened=OpenedNames(names=("libcuda.so.1",)))),
        torch(elf_file(), requires=("nvidia-cublas-cu12",)),
        torch(elf_file(), requires=("torch>=2.4",)),
        wheel(f"numba_cuda-1.0-{TAG}", objects=(elf_file(),)),
        torch(),
    ],
    ids=["needs", "opens", "requires", "framework", "name", "pure"],
)
def test_one_that_may_work_on_a_gpu_is_not(package: Package) -> None:
    require_trace_of_gpu(package)
