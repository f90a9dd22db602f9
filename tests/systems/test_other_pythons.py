"""The C APIs of PyPy and GraalPy are those of their own libraries, by the version in the tags."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.knowledge.tags import read_claims
from binary_checks.loaders.image import may_be_exported
from binary_checks.model import Interpreter, TargetSystem
from binary_checks.systems import target_for

LINUX = "manylinux_2_17_x86_64"


def on(tags: str) -> TargetSystem:
    return target_for(read_claims(parse_tag(tags)), frozenset())


def find(python: str) -> Interpreter:
    found = on(f"{python}-{LINUX}").interpreter
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("python", "complete"),
    [("pp37", True), ("pp38", False), ("pp39", True), ("pp310", True), ("pp311", True)],
)
def test_each_version_of_pypy_has_its_names(python: str, complete: bool) -> None:
    tags = f"{python}-pypy{python[2:]}_pp73"
    found = find(tags)
    assert (found.implementation, found.complete) == ("pypy", complete)
    assert "PyPyLong_FromLong" in found.exports
    assert "PyLong_FromLong" not in found.exports  # the headers rename it
    assert on(f"{tags}-{LINUX}").name == f"{LINUX}, PyPy 3.{python[3:]}"


def test_cpython_comes_first() -> None:
    assert find("cp311.pp311-abi3").implementation == "cpython"


@pytest.mark.parametrize(
    ("tags", "release"),
    [
        ("graalpy311-graalpy242_311_native", "24.2"),
        ("graalpy312-graalpy250_312_native", "25.0"),
        ("graalpy313-graalpy253_313_native", "25.3"),
    ],
)
def test_each_release_of_graalpy_has_its_names(tags: str, release: str) -> None:
    found = find(tags)
    assert (found.implementation, found.release) == ("graalpy", release)
    assert {"PyLong_FromLong", "PyExc_ValueError", "PyList_Type"} <= found.exports
    assert not may_be_exported("PyList_Now", found)


def test_a_function_that_ends_the_process_is_exported_nevertheless() -> None:
    found = find("graalpy312-graalpy250_312_native")
    assert "PyAsyncGen_New" in found.exports & found.unimplemented
    assert "PyLong_FromLong" not in found.unimplemented


def test_names_that_older_sources_contain_are_unsure() -> None:
    found = find("graalpy311-graalpy242_311_native")
    assert may_be_exported("_PyMem_DebugFree", found)
    assert not found.unsure & found.exports


@pytest.mark.parametrize(
    "tags",
    [
        f"pp312-pypy312_pp80-{LINUX}",
        "pp311-pypy311_pp73-win_amd64",
        f"graalpy312-none-{LINUX}",
        f"graalpy312-graalpy259_312_native-{LINUX}",
        "graalpy312-graalpy250_312_native-win_amd64",
    ],
)
def test_there_are_no_data_of_an_unknown_version_or_of_windows(tags: str) -> None:
    assert on(tags).interpreter is None
