from __future__ import annotations

import pytest

from binary_checks.checks.duplicates import duplicate_runtime
from binary_checks.model import Linkage, Problem
from fixtures.values import wheel


def judge(*loaded: str) -> list[object]:
    return list(duplicate_runtime(Linkage(target="x", closures=(("demo/a.so", loaded),)), wheel()))


@pytest.mark.parametrize(
    ("one", "other", "runtime"),
    [
        ("demo.libs/libgomp-1a2b3c4d.so.1.0.0", "demo/lib/libgomp.so.1", "openmp"),
        ("demo.libs/libgomp-1a2b3c4d.so.1.0.0", "demo/lib/libiomp5.so", "openmp"),
        ("demo/lib/libomp.so", "demo/lib/libiomp5.so", "openmp"),
        ("demo.libs/libcudart.1a2b3c4d.so.13", "wheel:torch:nvidia/libcudart.so.13", "libcudart"),
        ("a.libs/libstdc++-1a2b3c4d.so.6.0.28", "a/libstdc++.so.6", "libstdc++"),
        ("a/.dylibs/libomp.dylib", "b/.dylibs/libgomp.1.dylib", "openmp"),
        ("a.libs/VCOMP140.dll", f"b.libs/libiomp5md-{'0f' * 16}.dll", "openmp"),
        ("a/cudart64_12.dll", "wheel:torch:torch/lib/cudart64_12.dll", "libcudart"),
        ("a/cudart32_80.dll", "b/cudart_8.dll", "libcudart"),
        ("a/tbb12.dll", "b/tbb.dll", "libtbb"),
        ("a.libs/libtbb-1a2b3c4d.so.12", "b/libtbb.so.2", "libtbb"),
        ("a/libc++.1.dylib", "b/libc++.1.0.dylib", "libc++"),
        ("a/libmpi.so.40", "b.libs/libmpi-1a2b3c4d.so.12", "libmpi"),
        ("a/libpython3.11.so.1.0", "b/libpython3.12.dylib", "libpython"),
    ],
)
def test_two_copies_of_a_runtime_are_one_too_many(one: str, other: str, runtime: str) -> None:
    assert judge("demo/a.so", one, other) == [
        Problem(path="demo/a.so", sentence=f"loads 2 copies of {runtime}: {one}, {other}")
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s.libs/libgfortran-040039e1.so.5", "s.libs/libgfortran-040039e1-0352e75f.so.5"),
        ("s.libs/libgcc_s-1a2b3c4d.so.1", "s.libs/libgcc_s-2a2b3c4d.so.1"),
        ("demo/libtbb.so.12", "demo/libtbbmalloc.so.2"),
        ("demo/libgomp.so.1", "demo/libother.so"),
        ("demo/libomp.dylib", "demo/libomptarget.dylib"),
        ("demo/tbb12.dll", "demo/tbbmalloc.dll"),
        ("demo/libomp.dylib", "demo/libomp.txt"),
    ],
)
def test_copies_that_keep_out_of_each_others_way_are_fine(one: str, other: str) -> None:
    assert judge("demo/a.so", one, other) == []
