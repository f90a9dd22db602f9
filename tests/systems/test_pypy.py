"""The C API of PyPy is that of its own library, by version of Python."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.knowledge.tags import read_claims
from binary_checks.model import TargetSystem
from binary_checks.systems import target_for

LINUX = "manylinux_2_17_x86_64"


def on(tags: str) -> TargetSystem:
    return target_for(read_claims(parse_tag(tags)), frozenset())


@pytest.mark.parametrize(
    ("python", "complete"),
    [("pp37", True), ("pp38", False), ("pp39", True), ("pp310", True), ("pp311", True)],
)
def test_each_version_has_its_names(python: str, complete: bool) -> None:
    target = on(f"{python}-pypy{python[2:]}_pp73-{LINUX}")
    assert target.interpreter is not None
    assert target.interpreter.implementation == "pypy"
    assert "PyPyLong_FromLong" in target.interpreter.exports
    assert "PyLong_FromLong" not in target.interpreter.exports  # the headers rename it
    assert target.interpreter.complete is complete
    assert target.name == f"{LINUX}, PyPy 3.{python[3:]}"


def test_a_version_newer_than_the_data_and_windows_are_unknown() -> None:
    assert on(f"pp312-pypy312_pp80-{LINUX}").interpreter is None
    assert on("pp311-pypy311_pp73-win_amd64").interpreter is None


def test_cpython_comes_first() -> None:
    target = on(f"cp311.pp311-abi3-{LINUX}")
    assert target.interpreter is not None
    assert target.interpreter.implementation == "cpython"
