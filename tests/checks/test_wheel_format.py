"""What WHEEL and the data folder tell installers to do, where these refuse or differ."""

from __future__ import annotations

import pytest

from binary_checks.checks.metadata import (
    foreign_data_folder,
    root_is_purelib_is_wrong,
    unsupported_wheel_version,
)
from binary_checks.model import Problem
from fixtures.values import elf_file, member, wheel

ANY = "demo-1.0-py3-none-any.whl"
WHEEL = "demo-1.0.dist-info/WHEEL"


@pytest.mark.parametrize("version", ["2.0", "x", "1.x"])
def test_a_wheel_version_that_installers_refuse(version: str) -> None:
    (problem,) = unsupported_wheel_version(wheel(wheel=(("Wheel-Version", version),)))
    assert problem == Problem(
        path=WHEEL, sentence=f"Wheel-Version is '{version}'; installers refuse all but 1.x"
    )


def test_a_wheel_version_that_installers_take() -> None:
    for headers in ((("Wheel-Version", "1.0"),), (("Wheel-Version", "1.9"),), ()):
        assert list(unsupported_wheel_version(wheel(wheel=headers))) == []


def test_a_purelib_that_is_neither_true_nor_false() -> None:
    (problem,) = root_is_purelib_is_wrong(wheel(wheel=(("Root-Is-Purelib", "yes"),)))
    assert problem == Problem(
        path=WHEEL, sentence="Root-Is-Purelib is 'yes': installers take it for false"
    )


def test_a_wheel_for_any_platform_that_goes_to_platlib() -> None:
    claims = (("Root-Is-Purelib", "False"),)
    (problem,) = root_is_purelib_is_wrong(wheel(ANY, wheel=claims))
    assert isinstance(problem, Problem)
    assert "has no native code" in problem.sentence
    assert list(root_is_purelib_is_wrong(wheel(ANY, wheel=claims, objects=[elf_file()]))) == []
    assert list(root_is_purelib_is_wrong(wheel(wheel=claims))) == []
    assert list(root_is_purelib_is_wrong(wheel(ANY))) == []


def test_a_data_folder_of_another_version() -> None:
    package = wheel(members=[member("demo-0.9.data/purelib/demo.py"), member("demo/x.data")])
    assert list(foreign_data_folder(package)) == [
        Problem(
            path="demo-0.9.data",
            sentence="pip takes it for the wheel's demo-1.0.data, but other installers do not",
        )
    ]
    assert list(foreign_data_folder(wheel(members=[member("demo-1.0.data/data/a")]))) == []
