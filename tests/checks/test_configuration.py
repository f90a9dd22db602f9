from __future__ import annotations

import pytest

from binary_checks.checks.configuration import configuration_contradiction
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.ci_variables import read_variables
from binary_checks.knowledge.configurations import configure
from binary_checks.knowledge.stated_values import read_given
from binary_checks.model import (
    Dependency,
    DeviceCode,
    DeviceKind,
    Finding,
    Level,
    ObjectFile,
    Problem,
)
from binary_checks.model.binary_configuration import StatedConfiguration
from fixtures.values import elf_file, wheel

TAGS = "cp311-cp311-manylinux_2_17_x86_64.whl"
CUBIN = DeviceCode(kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=8, compressed=0)
CUDA = elf_file("demo/_x.so", device_code=(CUBIN,))
PLAIN = elf_file("demo/_x.so")


def judge(
    name: str,
    *objects: ObjectFile,
    given: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
    **variables: str,
) -> list[Finding]:
    """``beside`` are the names of the run's other packages."""
    subject = wheel(name, objects=objects)
    claims = (*read_given(given), *read_variables(variables).claims)
    stated = StatedConfiguration(claims=claims, file_names=tuple(sorted((name, *beside))))
    return list(configuration_contradiction(configure(subject, stated), subject))


def sentences(findings: list[Finding]) -> list[str]:
    return [each.sentence if isinstance(each, Problem) else str(each) for each in findings]


def test_a_variable_against_the_label() -> None:
    found = judge(f"demo-1.0+cpu-{TAGS}", DESIRED_CUDA="cu126")
    assert sentences(found) == [
        "the accelerator: the label cpu says cpu, but DESIRED_CUDA=cu126 says cuda 12.6"
    ]
    assert judge(f"demo-1.0+cu126-{TAGS}", CUDA, DESIRED_CUDA="cu126") == []


def test_device_code_in_what_is_to_be_a_cpu_build() -> None:
    """Where a label says so, cuda-in-cpu-build tells."""
    assert sentences(judge(f"demo-1.0-{TAGS}", CUDA, DESIRED_CUDA="cpu")) == [
        "the accelerator: demo/_x.so holds device code for sm_90: cuda, but DESIRED_CUDA=cpu says "
        "cpu"
    ]
    assert judge(f"demo-1.0+cpu-{TAGS}", CUDA) == []
    assert judge(f"demo-1.0-{TAGS}", PLAIN, DESIRED_CUDA="cpu") == []


def test_a_cuda_label_without_a_trace_of_it_is_a_warning() -> None:
    (found,) = judge(f"demo-1.0+cu126-{TAGS}", PLAIN)
    assert isinstance(found, Problem)
    assert found.level is Level.WARNING
    assert "no object holds device code" in found.sentence


def test_a_project_s_name_alone_promises_no_trace() -> None:
    assert judge(f"nvidia_nvml_dev_cu12-1.0-{TAGS}", PLAIN) == []


def test_two_versions_of_cuda_are_judged_by_others() -> None:
    needs = elf_file("demo/_x.so", needed=(Dependency(name="libcudart.so.13"),))
    assert judge(f"demo-1.0+cu126-{TAGS}", needs) == []


def test_code_for_another_vendor() -> None:
    assert len(judge(f"demo-1.0+rocm6.2-{TAGS}", CUDA)) == 1


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("DESIRED_PYTHON", "3.12", "Python: the tag cp311-cp311 says 3.11, but"),
        ("PACKAGE_TYPE", "conda", "the kind of package: its content: wheel, but"),
        ("MATRIX_CHANNEL", "nightly", "the channel: the version 1.0 says stable, but"),
        ("BUILD_ENVIRONMENT", "windows-binary-wheel", "the system: 1 ELF object: linux and"),
    ],
)
def test_each_aspect_is_compared(variable: str, value: str, expected: str) -> None:
    found = sentences(judge(f"demo-1.0-{TAGS}", PLAIN, **{variable: value}))
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert f", but {variable}={value} says " in found[0]


def test_what_the_user_gives_is_held_against_name_and_bytes() -> None:
    found = judge(f"demo-1.0-{TAGS}", PLAIN, given=("python=3.12",))
    assert sentences(found) == [
        "Python: the tag cp311-cp311 says 3.11, but given python=3.12 says 3.12"
    ]
    assert judge(f"demo-1.0-{TAGS}", PLAIN, given=("python=3.11,version=1.0",)) == []


def test_two_variables_contradict_each_other() -> None:
    found = judge(f"demo-1.0-{TAGS}", DESIRED_PYTHON="3.11", MATRIX_PYTHON_VERSION="3.10")
    assert "DESIRED_PYTHON=3.11 says 3.11, but MATRIX_PYTHON_VERSION=3.10 says 3.10" in (
        " ".join(sentences(found))
    )


def test_a_variable_that_fits_one_package_of_a_matrix_is_not_about_the_others() -> None:
    mine, other = f"demo-1.0-{TAGS}", "demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    assert judge(mine, PLAIN, beside=(other,), DESIRED_PYTHON="3.11") == []
    with pytest.raises(NotApplicable):
        judge("demo-1.0-py3-none-any.whl", beside=(mine,), DESIRED_CUDA="cu126")
    assert judge(other, PLAIN, beside=(mine,), DESIRED_PYTHON="3.11") == []


def test_a_variable_that_fits_no_package_is_said_once() -> None:
    mine, other = f"demo-1.0-{TAGS}", "demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    assert len(judge(mine, PLAIN, beside=(other,), DESIRED_PYTHON="3.9")) == 1
    assert judge(other, PLAIN, beside=(mine,), DESIRED_PYTHON="3.9") == []


def test_where_nothing_is_said_twice_nothing_is_compared() -> None:
    with pytest.raises(NotApplicable, match="no two sources"):
        judge("demo-1.0-py3-none-any.whl")
