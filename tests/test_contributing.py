"""The check that CONTRIBUTING.md shows passes every test that a new check must pass."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.declaring import Check
from binary_checks.reports.explanation import explain
from tests import test_declarations

ROOT = Path(__file__).parents[1]
SHOWN = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
    re.DOTALL | re.MULTILINE,
)
CHECK, TESTS = "binary_checks/checks/linkage/needed_twice.py", "tests/checks/test_needed_twice.py"


def test_its_check_is_declared_as_ours_are_in_the_file_that_it_names() -> None:
    assert f"`{CHECK}`" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    declaration, _ = SHOWN
    names = {"__name__": CHECK.removesuffix(".py").replace("/", ".")}
    exec(declaration, names)
    (check,) = (value for value in names.values() if isinstance(value, Check))
    assert f"## {check.id}" in explain(check)
    for name, rule in vars(test_declarations).items():
        if name.startswith("test_a_check_"):
            rule(check)


@pytest.mark.slow
def test_its_check_and_tests_pass_in_a_copy_of_this_checkout(tmp_path: Path) -> None:
    """With the pages made anew, as the text says, and no other file edited."""
    for name in ("binary_checks", "docs", "fixtures", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (*ROOT.glob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("*.toml")):
        shutil.copy(path, tmp_path)
    for name, text in zip((CHECK, TESTS), SHOWN, strict=True):
        (tmp_path / name).write_text(text)
    held = ("architecture", "declarations", "declaring", "defects", "documentation")
    for arguments in (
        ["-m", "fixtures.documentation"],
        [
            "-m",
            "pytest",
            "-q",
            TESTS,
            "tests/checks/test_defaults.py",
            *(f"tests/test_{name}.py" for name in held),
        ],
    ):
        command = [sys.executable, *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "## library-needed-twice\n" in (tmp_path / "docs/checks/linkage.md").read_text("utf-8")
