"""Which wheels another system takes is said without asking this one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model import TargetSystem
from binary_checks.places.foreign_tags import describe_python
from binary_checks.systems import target_for
from fixtures.values import wheel


def describe(tags: str, **headers: str) -> Any:
    metadata = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    subject = wheel(f"demo-1.0-{tags}.whl", metadata=metadata)
    return describe_python(subject, target_for(subject.claims, frozenset()))


def test_a_linux_takes_its_own_wheels_first_and_those_of_newer_ones_last() -> None:
    python = describe("cp312-cp312-manylinux_2_17_x86_64")
    assert python.name == "cp312-manylinux_2_17_x86_64"
    platforms = python.platforms
    assert platforms[:3] == (
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    )
    assert platforms.index("manylinux1_x86_64") < platforms.index("manylinux_2_18_x86_64")
    assert platforms[-1] == "linux_x86_64"
    assert python.options()[:6] == (
        *("--implementation", "cp", "--python-version", "3.12", "--abi", "cp312"),
    )


@pytest.mark.parametrize(
    ("tags", "platforms"),
    [
        ("cp312-cp312-win_arm64", ("win_arm64",)),
        ("cp312-cp312-macosx_10_9_x86_64", ("macosx_10_9_x86_64", "macosx_99_0_x86_64")),
        ("cp312-cp312-macosx_14_0_arm64", ("macosx_14_0_arm64", "macosx_99_0_arm64")),
    ],
)
def test_other_systems_have_names_of_their_own(tags: str, platforms: tuple[str, ...]) -> None:
    assert describe(tags).platforms == platforms


def test_musl_has_its_own_family() -> None:
    assert describe("cp312-cp312-musllinux_1_2_aarch64").platforms[:2] == (
        "musllinux_1_2_aarch64",
        "musllinux_1_1_aarch64",
    )


@pytest.mark.parametrize(
    ("tags", "abi"),
    [
        ("cp314-cp314t-manylinux_2_28_x86_64", "cp314t"),
        ("cp39-abi3-manylinux_2_28_x86_64", "cp310"),
        ("cp39-cp39-manylinux_2_28_x86_64", "cp39"),
        ("cp311.cp312-abi3-win_amd64", "cp311"),
    ],
)
def test_the_oldest_python_that_is_allowed_is_asked_for(tags: str, abi: str) -> None:
    assert describe(tags, Requires_Python=">=3.10").abi == abi


def test_a_wheel_for_every_python_gets_the_one_that_runs() -> None:
    assert describe("py3-none-manylinux_2_28_x86_64").version == sys.version_info[:2]
    assert (
        describe("py3-none-win_amd64", Requires_Python="nonsense").version == sys.version_info[:2]
    )


def test_a_wheel_for_pypy_alone_is_not_fetched_for() -> None:
    subject = wheel("demo-1.0-pp310-pypy310_pp73-manylinux_2_17_x86_64.whl")
    with pytest.raises(
        Unavailable, match="its tags name no CPython for which to fetch requirements"
    ):
        describe_python(subject, TargetSystem(name="any"))
