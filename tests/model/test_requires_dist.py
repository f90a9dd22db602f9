"""Reading any Requires-Dist does not fail."""

from __future__ import annotations

import pytest

from binary_checks.model import applies, read_requirement

NEST = 3000


@pytest.mark.parametrize(
    "text",
    ["", "not a requirement", "(" * NEST, f"a; {'(' * NEST}python_version > '3'{')' * NEST}"],
)
def test_what_is_no_requirement_is_none(text: str) -> None:
    assert read_requirement(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("a; os_name == 'posix'", True),
        ("a; os_name == 'nt'", False),
        ("a; os_name ~= 'posix'", True),  # means nothing
    ],
)
def test_a_marker_says_whether_it_applies(text: str, expected: bool) -> None:
    requirement = read_requirement(text)
    assert requirement is not None
    assert applies(requirement, {"os_name": "posix"}) is expected
