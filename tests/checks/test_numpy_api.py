"""Extension modules built with one NumPy in a package that requires another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.python_abi import numpy_version_mismatch
from binary_checks.errors import NotApplicable
from binary_checks.model import Level, Note, NumpyBuild, Problem, TargetSystem
from fixtures.linking import target
from fixtures.values import elf_file, only, wheel
from tests.checks.test_python_abi import PYTHON

PATH = "demo/_native.cpython-311-x86_64-linux-gnu.so"
ON_311 = target()


def judge(
    build: NumpyBuild | None, *requires: str, path: str = PATH, on: TargetSystem = ON_311
) -> list[Any]:
    headers = (("Name", "demo"), *(("Requires-Dist", each) for each in requires))
    package = wheel(objects=[elf_file(path, numpy=build)], metadata=headers)
    return list(numpy_version_mismatch(package, on))


@pytest.mark.parametrize(
    "required", ["numpy", "numpy>=1.23.2", "numpy>=2", "numpy>=1.8,<3", "NumPy!=2.0.*"]
)
def test_what_numpy_2_refuses_where_installers_choose_it(required: str) -> None:
    problem = only(Problem, judge(NumpyBuild(api=1), required))
    assert (problem.path, problem.level) == (PATH, Level.ERROR)
    assert problem.sentence.startswith("is built with NumPy 1.x, which NumPy 2 refuses, and the")
    assert problem.sentence.endswith(": installers choose NumPy 2")


@pytest.mark.parametrize(
    "requires",
    [
        *(("numpy<2",), ("numpy>=1.21,<2.0",), ("numpy==1.26.*",), ("numpy", "numpy<2")),
        ("numpy<2", "numpy; sys_platform == 'win32'"),  # for other systems
    ],
)
def test_what_numpy_2_refuses_where_nobody_chooses_it(requires: tuple[str, ...]) -> None:
    assert judge(NumpyBuild(api=1), *requires) == []
    assert judge(NumpyBuild(api=1), "numpy", on=target(interpreter=PYTHON)) == []  # 3.8 has none
    first = replace(PYTHON, version=(3, 9))
    assert len(judge(NumpyBuild(api=1), "numpy", on=target(interpreter=first))) == 1


def test_a_library_is_a_warning_and_a_package_that_does_not_require_numpy_is_noted() -> None:
    (problem,) = judge(NumpyBuild(api=1), "numpy", path="demo/libdemo.so.1")
    assert problem.level is Level.WARNING
    assert only(Note, judge(NumpyBuild(api=1), "other"))
    assert judge(NumpyBuild(api=2, oldest="1.25"), "other") == []
    with pytest.raises(NotApplicable):
        judge(None, "numpy")


@pytest.mark.parametrize("required", ["numpy<1.20", "numpy<2", "numpy==1.26.*"])
def test_a_requirement_that_is_older_than_the_module(required: str) -> None:
    oldest = "1.25" if required == "numpy<1.20" else "2.1"
    (problem,) = judge(NumpyBuild(api=2, oldest=oldest), required)
    assert problem.sentence.startswith(f"is built for NumPy {oldest} or newer, and the package")
    assert problem.sentence.endswith("which is older")


@pytest.mark.parametrize("required", ["numpy", "numpy<2", "numpy>=1.23", "numpy>=2", "numpy==1.*"])
def test_what_is_built_with_numpy_2_runs_with_both(required: str) -> None:
    assert judge(NumpyBuild(api=2, oldest="1.25"), required) == []
    assert judge(NumpyBuild(api=2), required) == []


@pytest.mark.parametrize(
    ("oldest", "required"),
    [("1.7", "numpy==1.7.*"), ("1.26", "numpy<2"), ("1.26", "numpy==1.26.4")],
)
def test_the_first_and_the_last_releases_of_numpy_1_can_be_required(
    oldest: str, required: str
) -> None:
    assert judge(NumpyBuild(api=2, oldest=oldest), required) == []
