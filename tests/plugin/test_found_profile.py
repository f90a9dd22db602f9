"""Of a profile that the command found in the current folder nothing runs; pytest keeps its ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.declaring import find_checks
from binary_checks.profile.found import CODE
from tests.plugin.conftest import healthy

HARMLESS = {
    *("bfloat16", "expected", "float16", "float32", "float64", "leave_out", "must_import", "newer"),
    *("only", "prints", "seconds", "steps"),
}
"""Options of checks that run the package by which nothing runs: they say what must come out."""
OWN_CHECK = """
from binary_checks import check
from binary_checks.model import Wheel
open({mark!r}, "a").write("checks ")
@check
def wrong_colour(wheel: Wheel):
    "The package has the wrong colour."
    yield "it is blue"
"""
PROFILE = """
[tool.binary_checks]
checks = ["own.py"]
network = true
{extends}
[tool.binary_checks.options.snippet-fails.snippets]
own = "open({mark!r}, 'a').write('snippet ')"
[tool.binary_checks.options.unusable-without-gpu]
module = "demo"
snippet = "open({mark!r}, 'a').write('cuda ')"
[tool.binary_checks.options.wheel-too-large]
limit = 1
[tool.binary_checks.options.wrong-colour]
[[tool.binary_checks.known_problems]]
check = "wheel-too-large"
reason = "issue 1"
[[tool.binary_checks.known_problems]]
check = "wrong-colour"
reason = "issue 2"
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def folder(tmp_path: Path, mark: Path) -> Path:
    """A folder with a package, and a profile that would run a lot."""
    members = {"demo/__init__.py": "value = 1\n"}
    folder = healthy(tmp_path / "here", tags=("py3-none-any",), members=members).parent
    (folder / "own.py").write_text(OWN_CHECK.format(mark=str(mark)))
    (folder / "pyproject.toml").write_text(PROFILE.format(mark=str(mark), extends=""))
    return folder


def run(
    folder: Path, *arguments: str, starter: str = "binary_checks"
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", starter, "demo-1.0-py3-none-any.whl", *arguments]
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "options", [["--binary-sandbox=off"], ["--binary-static"], ["--binary-static", "-n", "2", "-d"]]
)
def test_nothing_of_it_runs_and_one_line_says_so(
    folder: Path, mark: Path, options: list[str]
) -> None:
    result = run(folder, *options)
    assert (result.returncode, mark.exists()) == (0, False), result.stdout + result.stderr
    (line,) = (each for each in result.stdout.splitlines() if "was found, not named" in each)
    code = ["snippet-fails.snippets", "unusable-without-gpu.module", "unusable-without-gpu.snippet"]
    listed = ", ".join(["own.py", "network", *(f"options.{each}" for each in code)])
    assert line == (
        f"{folder / 'pyproject.toml'} was found, not named, and holds without {listed}: "
        "--binary-profile pyproject.toml names it"
    )


def test_known_problems_that_it_accepts_are_announced(folder: Path) -> None:
    """They hold, for the package is larger than one byte; of a check left out there is none."""
    result = run(folder, "--binary-static")
    said = "was found and not named, accepts known problems: wheel-too-large (1)"
    assert f"{folder / 'pyproject.toml'}, which {said}" in result.stdout.splitlines()
    assert "1 xfailed" in result.stdout


def test_named_it_runs(folder: Path, mark: Path) -> None:
    result = run(folder, "--binary-profile", "pyproject.toml", "--binary-sandbox=off")
    assert mark.read_text().split()[0] == "checks"
    assert "snippet" in mark.read_text()
    assert "was found, not named" not in result.stdout
    assert "not named" not in result.stdout


def test_pytest_runs_it_as_it_runs_a_conftest(folder: Path, mark: Path) -> None:
    result = run(folder, "--binary-static", starter="pytest")
    assert mark.read_text() == "checks "
    assert "not named" not in result.stdout


def test_a_folders_own_ini_file_has_no_say(folder: Path, mark: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nbinary_deaf = false\n")
    run(folder, "--binary-static", "-n", "2", "-d")
    assert not mark.exists()


def test_what_a_shipped_profile_runs_stays(folder: Path, mark: Path) -> None:
    text = PROFILE.format(mark=str(mark), extends='extends = "cupy"')
    (folder / "pyproject.toml").write_text(text)
    result = run(folder, "--collect-only", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not mark.exists()


def test_a_name_that_no_check_has_is_still_a_mistake(folder: Path) -> None:
    text = '[tool.binary_checks]\nenable = ["no-such-check"]\n'
    (folder / "pyproject.toml").write_text(text)
    assert run(folder, "--binary-static").returncode == 4


def test_every_option_of_a_check_that_runs_the_package_is_sorted() -> None:
    runtime = [check for check in find_checks([]) if check.runs_package]
    names = {name for check in runtime for name in check.options}
    assert names == {name for name in names if (name in CODE) != (name in HARMLESS)}
