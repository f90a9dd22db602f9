"""The toolkits that made device code are held against what the package states."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.toolkits import device_code_of_other_cuda
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.toolkit_claims import claim_by_package
from binary_checks.model import (
    DeviceToolkits,
    Finding,
    Level,
    Note,
    NotInspected,
    Platform,
    Problem,
    StatedToolkits,
    ToolkitClaim,
    ToolkitSample,
    ToolkitSource,
)
from fixtures.linking import library, target
from fixtures.values import only, wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"
PATH = "demo/libdemo.so"


def sample(*toolkits: tuple[str, int], path: str = PATH, **fields: Any) -> ToolkitSample:
    seen = sum(count for _, count in (*toolkits, *fields.get("ptx", ())))
    return ToolkitSample(path=path, toolkits=toolkits, **{"seen": seen, "total": 300, **fields})


def judge(
    *samples: ToolkitSample,
    name: str = "demo-1.0",
    needed: tuple[str, ...] = (),
    stated_in_file: str = "",
) -> list[Finding]:
    objects = [library(each.path, *needed) for each in samples]
    package = wheel(f"{name}-{TAGS}", objects=objects)
    claims = list(claim_by_package(package, target()))
    if stated_in_file:
        claims.append(
            ToolkitClaim(
                platform=Platform.CUDA,
                version=stated_in_file,
                source=ToolkitSource.FILE,
                evidence="demo/version.py",
            )
        )
    stated = StatedToolkits(claims=tuple(claims))
    return list(device_code_of_other_cuda(package, stated, DeviceToolkits(samples=samples)))


def test_a_label_over_code_of_another_toolkit() -> None:
    assert judge(sample(("13.5", 16)), name="demo-1.0+cu126") == [
        Problem(
            path=PATH,
            sentence="has device code made by CUDA 13.5, while the version label +cu126 says CUDA "
            "12.6: it was built with another toolkit",
            cause="the version label +cu126",
            consequence=True,
        )
    ]


def test_another_minor_version_than_a_generated_file_says_is_a_warning() -> None:
    """As in the wheel of onnxruntime-gpu 1.31.1 for aarch64."""
    own, needed = sample(("13.1", 16)), ("libcudart.so.13",)
    assert only(Problem, judge(own, stated_in_file="13.0", needed=needed)).level is Level.WARNING
    assert only(Problem, judge(sample(("12.9", 16)), stated_in_file="13.0")).level is Level.ERROR
    assert only(Problem, judge(sample(("13.0", 9)), name="demo-1.0+cu132")).level is Level.ERROR


def test_code_of_the_stated_toolkit_is_fine_and_a_needed_library_states_one_too() -> None:
    for name in ("demo-1.0+cu126", "demo_cu12-1.0"):
        assert judge(sample(("12.6", 16), ptx=(("8.5", 2),)), name=name) == []
    assert judge(sample(("13.2", 4)), needed=("libcudart.so.13",)) == []
    found = only(Problem, judge(sample(("12.9", 4)), needed=("libcudart.so.13",)))
    assert "while the needed libcudart.so.13 says CUDA 13: it was" in found.sentence


def test_a_library_with_a_version_in_its_name_is_held_to_that_alone() -> None:
    old = sample(("11.8", 9), path="demo/libdemo_cuda118.so")
    new = sample(("13.2", 9), path="demo/libdemo_cuda130.so")
    found = only(Problem, judge(old, new, name="demo-1.0+cu130"))
    assert found.path == "demo/libdemo_cuda130.so"
    assert "while its own name says CUDA 13.0" in found.sentence


def test_the_archive_of_a_vendor_inside_is_noted() -> None:
    """As in libtorch_nvshmem.so, half of whose cubins are NVSHMEM's."""
    (found,) = judge(sample(("13.2", 18), ("13.0", 18)), name="demo-1.0+cu132")
    assert found == Note(
        path=PATH,
        sentence="has device code of several toolkits (18 by 13.2, 18 by 13.0; 36 of 300 "
        "entries inspected)",
    )
    (whole,) = judge(sample(("13.2", 2), ("13.0", 1), total=3), name="demo-1.0+cu132")
    sentence = "has device code of several toolkits (2 by 13.2, 1 by 13.0)"
    assert whole == Note(path=PATH, sentence=sentence)


def test_a_package_without_code_for_gpus_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="no code for NVIDIA's GPUs in the package"):
        judge(name="demo-1.0+cpu")
    with pytest.raises(NotApplicable, match="nothing states a CUDA version"):
        judge(sample(("13.0", 9)))


def test_ptx_alone_counts_where_it_is_newer() -> None:
    found = only(Problem, judge(sample(ptx=(("8.0", 3), ("9.2", 3))), name="demo-1.0+cu126"))
    assert "has PTX as CUDA 13.2 writes it, while" in found.sentence
    for version in ("8.0", "8.5"):
        assert judge(sample(ptx=((version, 3),)), name="demo-1.0+cu126") == []


def test_code_is_not_blamed_for_a_file_that_contradicts_the_label() -> None:
    """cuda-versions-differ reports that file; the code is as the label says."""
    own = sample(("13.2", 16))
    assert judge(own, name="demo-1.0+cu132", stated_in_file="12.9") == []
    other = sample(("12.9", 16))
    found = only(Problem, judge(other, name="demo-1.0+cu132", stated_in_file="12.9"))
    assert "while the version label +cu132 says CUDA 13.2" in found.sentence


def test_libraries_of_nvidia_and_loose_cubins_are_not_judged() -> None:
    theirs = sample(("12.0", 9), path="demo.libs/libnvjpeg-1a359ba7.so.13")
    with pytest.raises(NotApplicable, match="no object of its own"):
        judge(theirs, name="demo-1.0+cu130")
    own = sample(("12.0", 9), path="torch/lib/libtorch_cuda.so")
    assert len(judge(own, name="torch-1.0+cu130")) == 1


def test_code_that_could_not_be_read_is_a_gap_in_the_same_words_for_each_object() -> None:
    reason = "zstandard is not installed: pip install binary-checks[device]"
    gaps = [sample(path=f"demo/{name}.so", unread=reason) for name in "ab"]
    assert judge(*gaps, name="demo-1.0+cu126") == [
        NotInspected(
            path=f"demo/{name}.so", sentence=f"its device code could not be read: {reason}"
        )
        for name in "ab"
    ]
