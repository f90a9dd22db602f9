from __future__ import annotations

import pytest

from binary_checks.knowledge.standard_library import find_removed


@pytest.mark.parametrize(
    ("modules", "minor"),
    [("asynchat imp", 12), ("aifc imghdr", 13), ("lib2to3 nis", 13), ("pipes uu", 13)],
)
def test_a_module_of_the_standard_library_is_removed_once(modules: str, minor: int) -> None:
    for name in modules.split():
        assert find_removed(name, (3, minor - 1)) == ""
        assert find_removed(f"{name}.x", (3, minor)) == f"Python 3.{minor} has no {name}"
