"""An option, a profile or a check of the user's own that cannot be followed is said in one line."""

from __future__ import annotations

import re
import sys

import pytest

from tests.plugin.conftest import Run, healthy

NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
IMPORTS = "from binary_checks import check\nfrom binary_checks.model import Wheel\n\n@check\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--binary-with", "gone"], "no such file or folder: gone"),
        (["--binary-with", "notes.txt"], "--binary-with notes.txt: neither a package file nor"),
        (["--binary-python", "gone"], "no such file or folder: gone"),
        (["--binary-python", "."], "--binary-python .: no program to run"),
        (["--binary-require", "colour"], "--binary-require colour: no such family; there are arch"),
        (["--binary-profile", ""], "profile '': neither a shipped profile nor a .toml file"),
        (["--binary-profile", "gone.toml"], "profile gone.toml: No such file"),
    ],
)
def test_an_option_that_cannot_be_followed_is_a_usage_error(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    healthy(pytester.path)
    (pytester.path / "notes.txt").write_text("no wheel")
    with pytest.raises(pytest.UsageError, match=re.escape(message)):
        pytester.parseconfigure(NAME, *options)


def test_a_check_whose_signature_says_nothing_is_a_usage_error(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    (pytester.path / "my_checks.py").write_text(f"{IMPORTS}def mine(wheel): yield ''\n")
    pytester.makepyprojecttoml("[tool.binary_checks]\nchecks = ['my_checks.py']\n")
    result = run(NAME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: check mine: parameter without a known type: 'wheel'" in result.errlines


def test_a_check_that_breaks_is_one_line_and_the_others_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    body = "def mine(wheel: Wheel):\n    'Mine.'\n    yield 'one'\n    raise ValueError('a\\nb')\n"
    (pytester.path / "my_checks.py").write_text(IMPORTS + body)
    pytester.makepyprojecttoml("[tool.binary_checks]\nchecks = ['my_checks.py']\n")
    result = run(NAME, "-k", "mine or absolute-search-path")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1, passed=1, deselected=result.parseoutcomes()["deselected"])
    broke = "the check broke: ValueError: a\\nb (my_checks.py:8)"
    assert f"mine: {NAME}: {broke}" in result.outlines
    assert f"error: {broke} (my_checks)" in result.outlines


def test_half_a_character_travels_between_processes(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    (pytester.path / "my_checks.py").write_text(
        f"{IMPORTS}def mine(wheel: Wheel):\n    'Mine.'\n    yield '\\ud800'\n"
    )
    pytester.makepyprojecttoml("[tool.binary_checks]\nchecks = ['my_checks.py']\n")
    result = run(NAME, "-k", "mine", "-n", "2", "--binary-sarif", "new/report.sarif")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"mine: {NAME}: \\ud800" in result.outlines
    assert "\\\\ud800" in (pytester.path / "new/report.sarif").read_text("utf-8")


def test_a_package_given_beside_that_is_broken_is_not_the_judged_ones_fault(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    (pytester.path / "bad-1.0-py3-none-any.whl").write_bytes(b"no zip")
    check = "missing-library"
    result = run(f"{NAME}::{check}", "--binary-with", "bad-1.0-py3-none-any.whl")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"{check}: {NAME}: given beside the package: bad-1.0-*"])
    assert "Traceback" not in result.stdout.str()


def test_a_program_that_is_no_python_is_an_error_of_one_line(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    program = pytester.path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    if sys.platform == "win32":
        pytest.skip("scripts are no programs here")
    result = run(f"{NAME}::import-fails", "--binary-python", program, static=False)
    result.assert_outcomes(errors=1)
    line = f"import-fails: {NAME}: {program}: is no Python: it made no virtual environment"
    assert line in result.outlines


def test_sarif_that_cannot_be_written_is_one_line_and_never_green(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    result = run(NAME, "--binary-sarif", ".")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["--binary-sarif: * cannot be written: *"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
