"""The C API of GraalPy is that of its own library, by the version in the ABI tag."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.knowledge.tags import read_claims
from binary_checks.loaders.image import may_be_exported
from binary_checks.model import Interpreter
from binary_checks.systems import target_for


def find(tags: str, platform: str = "manylinux_2_28_x86_64") -> Interpreter | None:
    return target_for(read_claims(parse_tag(f"{tags}-{platform}")), frozenset()).interpreter


@pytest.mark.parametrize(
    ("tags", "release"),
    [
        ("graalpy311-graalpy242_311_native", "24.2"),
        ("graalpy312-graalpy250_312_native", "25.0"),
        ("graalpy313-graalpy253_313_native", "25.3"),
    ],
)
def test_each_release_has_its_names(tags: str, release: str) -> None:
    found = find(tags)
    assert found is not None
    assert (found.implementation, found.release) == ("graalpy", release)
    assert {"PyLong_FromLong", "PyExc_ValueError", "PyList_Type"} <= found.exports
    assert not may_be_exported("PyList_Now", found)


def test_a_function_that_ends_the_process_is_exported_nevertheless() -> None:
    found = find("graalpy312-graalpy250_312_native")
    assert found is not None
    assert "PyAsyncGen_New" in found.exports & found.unimplemented
    assert "PyLong_FromLong" not in found.unimplemented


def test_names_that_older_sources_contain_are_unsure() -> None:
    found = find("graalpy311-graalpy242_311_native")
    assert found is not None
    assert may_be_exported("_PyMem_DebugFree", found)
    assert not found.unsure & found.exports


@pytest.mark.parametrize("tags", ["graalpy312-none", "graalpy312-graalpy259_312_native"])
def test_an_unknown_release_has_no_data(tags: str) -> None:
    assert find(tags) is None


def test_on_windows_it_is_unknown() -> None:
    assert find("graalpy312-graalpy250_312_native", "win_amd64") is None
