"""Extension modules that one Python imports, in a wheel that promises many."""

from __future__ import annotations

import pytest

from binary_checks.checks.metadata.bound_extensions import version_bound_extension
from binary_checks.errors import NotApplicable
from binary_checks.model import Level, Problem
from fixtures.values import member, wheel

ABI3 = "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
BOUND = "demo/_native.cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (ABI3, BOUND),
        ("demo-1.0-cp38-abi3-win_amd64.whl", "demo/_native.cp311-win_amd64.pyd"),
        ("demo-1.0-py3-none-manylinux_2_17_x86_64.whl", BOUND),
    ],
)
def test_a_module_that_one_python_imports(name: str, path: str) -> None:
    (problem,) = version_bound_extension(wheel(name, members=[member(path)]))
    assert isinstance(problem, Problem)
    assert (problem.path, problem.level) == (path, Level.ERROR)
    assert problem.sentence.startswith("is imported by Python 3.11 alone, and ")
    assert problem.sentence.endswith("promises others")


def test_a_module_for_several_pythons_is_a_warning() -> None:
    other = BOUND.replace("311", "312")
    found = [*version_bound_extension(wheel(ABI3, members=[member(BOUND), member(other)]))]
    assert [problem.level for problem in found if isinstance(problem, Problem)] == [
        Level.WARNING,
        Level.WARNING,
    ]


@pytest.mark.parametrize(
    "paths",
    [
        ["demo/_native.abi3.so"],
        ["demo/_native.so"],
        ["demo/_native.pyd"],
        [BOUND, "demo/_native.abi3.so"],
        ["demo/libdemo.so.1"],
    ],
)
def test_a_module_that_every_python_imports(paths: list[str]) -> None:
    assert list(version_bound_extension(wheel(ABI3, members=map(member, paths)))) == []


def test_a_wheel_for_one_python_may_be_bound_to_it() -> None:
    with pytest.raises(NotApplicable):
        list(version_bound_extension(wheel(members=[member(BOUND)])))
