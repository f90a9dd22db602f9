from __future__ import annotations

import pytest

from binary_checks.knowledge.ci_variables import read_variables


def test_variables_of_pytorch_s_jobs() -> None:
    found = read_variables(
        {
            "PACKAGE_TYPE": "manywheel",
            "DESIRED_PYTHON": "cp313-cp313t",
            "DESIRED_CUDA": "cpu-aarch64",
            "DESIRED_DEVTOOLSET": "devtoolset7",
            "BUILD_ENVIRONMENT": "linux-binary-libtorch-cxx11-abi",
            "GPU_ARCH_TYPE": "xpu",
            "MATRIX_GPU_ARCH_TYPE": "cuda",
            "MATRIX_GPU_ARCH_VERSION": "12.6",
            "MATRIX_CHANNEL": "nightly",
            "MATRIX_STABLE_VERSION": "2.9.0",
            "LIBTORCH_VARIANT": "",
            "HOME": "/root",
        }
    )
    assert [(each.aspect, each.claim.value, each.claim.evidence) for each in found.claims] == [
        ("system", "linux", "BUILD_ENVIRONMENT=linux-binary-libtorch-cxx11-abi"),
        ("kind", "libtorch", "BUILD_ENVIRONMENT=linux-binary-libtorch-cxx11-abi"),
        ("cxx_abi", "cxx11", "BUILD_ENVIRONMENT=linux-binary-libtorch-cxx11-abi"),
        ("accelerator", "cpu", "DESIRED_CUDA=cpu-aarch64"),
        ("architecture", "aarch64", "DESIRED_CUDA=cpu-aarch64"),
        ("cxx_abi", "pre-cxx11", "DESIRED_DEVTOOLSET=devtoolset7"),
        ("python", "3.13t", "DESIRED_PYTHON=cp313-cp313t"),
        ("accelerator", "xpu", "GPU_ARCH_TYPE=xpu"),
        ("channel", "nightly", "MATRIX_CHANNEL=nightly"),
        ("accelerator", "cuda 12.6", "MATRIX_GPU_ARCH_TYPE=cuda MATRIX_GPU_ARCH_VERSION=12.6"),
        ("kind", "wheel", "PACKAGE_TYPE=manywheel"),
    ]
    assert found.misunderstood == ()


def test_variables_that_say_nothing_are_named() -> None:
    odd = {"DESIRED_CUDA": "banana", "GPU_ARCH_TYPE": "cup", "PYTORCH_BUILD_VERSION": "master"}
    assert read_variables(odd) == ((), tuple(f"{name}={value}" for name, value in odd.items()))


@pytest.mark.parametrize(
    "odd",
    [
        "linux-binary-spaceship",
        "conda 3.7",
        "conda 3.7 cu100 1",
        "spaceship 3.7 cu100",
        "conda 3.7 cu100 devtoolset7 nightly",
    ],
)
def test_a_build_environment_that_is_not_understood_is_named(odd: str) -> None:
    assert read_variables({"BUILD_ENVIRONMENT": odd}) == ((), (f"BUILD_ENVIRONMENT={odd}",))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "conda 3.7 cu100 devtoolset7",
            {"kind": "conda", "python": "3.7", "accelerator": "cuda 10.0", "cxx_abi": "pre-cxx11"},
        ),
        ("manywheel 2.7mu cpu", {"kind": "wheel", "python": "2.7mu", "accelerator": "cpu"}),
        (
            "libtorch 3.7m cu101 gcc5.4_cxx11-abi",
            {"kind": "libtorch", "accelerator": "cuda 10.1", "cxx_abi": "cxx11"},
        ),
        ("libtorch 3.7 cpu debug", {"kind": "libtorch", "accelerator": "cpu"}),
    ],
)
def test_the_old_form_of_a_build_environment(words: str, expected: dict[str, str]) -> None:
    found = read_variables({"BUILD_ENVIRONMENT": words})
    assert {each.aspect: each.claim.value for each in found.claims} == expected
    assert {each.claim.evidence for each in found.claims} == {f"BUILD_ENVIRONMENT={words}"}
    assert found.misunderstood == ()


def versions(environment: dict[str, str], matrix: object = None) -> dict[str, str]:
    """Return the version that is expected of each file, by glob."""
    found = read_variables(environment, matrix)
    assert {each.aspect for each in found.claims} <= {"version"}
    return {each.files: each.claim.shown for each in found.claims}


@pytest.mark.parametrize(
    ("number", "expected"),
    [("", "2.15.0+cu126"), ("1", "2.15.0+cu126"), ("2", "2.15.0+cu126.post2")],
)
def test_the_version_of_a_build_has_the_number_of_the_build(number: str, expected: str) -> None:
    environment = {"PYTORCH_BUILD_VERSION": "2.15.0+cu126", "PYTORCH_BUILD_NUMBER": number}
    found = versions(environment)
    assert found["torch-[0-9]*"] == found["installed:torch"] == expected
    assert found["libtorch-*"] == found["pytorch-[0-9]*"] == "2.15.0"
    (whole, *_) = read_variables(environment).claims
    assert ("PYTORCH_BUILD_NUMBER=2" in whole.claim.evidence) == (number == "2")


RELEASE = {"torch": "2.9.1", "torchvision": "0.24.1"}


@pytest.mark.parametrize("matrix", [RELEASE, {"2.9.1": RELEASE, "2.8.0": {"torch": "2.8.0"}}])
def test_a_release_has_a_version_of_each_project(matrix: object) -> None:
    assert versions({"RELEASE_VERSION": "2.9.1"}, matrix) == {
        "torch-[0-9]*": "2.9.1",
        "installed:torch": "2.9.1",
        "torchvision-[0-9]*": "0.24.1",
        "installed:torchvision": "0.24.1",
    }


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ({}, "there is no release_matrix.json"),
        ({"2.8.0": {"torch": "2.8.0"}}, "no such release in release_matrix.json"),
        ([1], "no such release in release_matrix.json"),
    ],
)
def test_a_release_without_versions_is_named(matrix: object, reason: str) -> None:
    found = read_variables({"RELEASE_VERSION": "2.9.1"}, matrix)
    assert found == ((), (f"RELEASE_VERSION=2.9.1 ({reason})",))


def test_the_version_of_a_matrix_counts_in_its_release_channel_alone() -> None:
    stable = {"MATRIX_STABLE_VERSION": "2.9.0"}
    assert read_variables(stable).claims == ()
    stable["MATRIX_CHANNEL"] = "release"
    found = read_variables(stable, {"torch": "2.8.0"}).claims
    assert [each.claim.value for each in found] == ["stable", "2.9.0"]
    named = read_variables({**stable, "RELEASE_VERSION": "2.8.0"}, {"torch": "2.8.0"}).claims
    assert {each.claim.value for each in named} == {"stable", "2.8.0"}  # a release counts more
