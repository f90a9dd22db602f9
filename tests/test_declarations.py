"""Every check is documented, belongs to a family, fires in one test and is quiet in another."""

from __future__ import annotations

import ast
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

from binary_checks.check import FAMILIES, Check, find_checks
from binary_checks.explanation import explain

TESTS = Path(__file__).parent / "checks"
CHECKS = find_checks()
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


@cache
def functions_of(family: str) -> tuple[ast.FunctionDef, ...]:
    """The test functions of a family's test files."""
    trees = (ast.parse(file.read_bytes()) for file in sorted(TESTS.glob(f"test_{family}*.py")))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return tuple(node for node in nodes if isinstance(node, ast.FunctionDef))


def cases_of(check: Check[Any], how: str) -> list[str]:
    """The names of its tests of that kind that name the check and assert something."""
    return [
        function.name
        for function in functions_of(check.family)
        if function.name.startswith(f"test_{check.__name__}_{how}")
        and any(isinstance(node, ast.Assert) for node in ast.walk(function))
        and any(isinstance(n, ast.Name) and n.id == check.__name__ for n in ast.walk(function))
    ]


def test_there_are_checks_and_no_two_share_an_id() -> None:
    ids = [check.id for check in CHECKS]
    assert ids
    assert len(ids) == len(set(ids))


@each_check
def test_a_check_has_a_title_a_why_and_a_fix(check: Check[Any]) -> None:
    documentation = check.documentation
    assert documentation.title.endswith(".")
    assert documentation.why
    assert documentation.fix
    assert "\n" not in documentation.title, "a title is one line: tables and --explain show it"


@each_check
def test_a_check_belongs_to_a_family(check: Check[Any]) -> None:
    assert check.family in FAMILIES


@each_check
def test_a_check_says_what_it_runs_on_and_every_option_has_a_default(check: Check[Any]) -> None:
    assert check.subjects
    assert [] == [
        name for name, option in check.options.items() if option.default is Parameter.empty
    ]
    assert check.id in explain(check)


@each_check
def test_a_check_has_a_test_in_which_it_fires(check: Check[Any]) -> None:
    assert cases_of(check, "fires"), f"tests/checks/test_{check.family}*.py"


@each_check
def test_a_check_has_a_test_in_which_it_is_quiet(check: Check[Any]) -> None:
    assert cases_of(check, "is_quiet"), f"tests/checks/test_{check.family}*.py"


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_has_checks(family: str) -> None:
    assert [check.id for check in CHECKS if check.family == family]
