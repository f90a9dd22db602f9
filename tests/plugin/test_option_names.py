"""Options are named as by the program that was called: short by ours, in full under pytest."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from binary_checks.command import main
from binary_checks.command.check import lengthen
from binary_checks.model import RunResult
from binary_checks.options import OPTIONS, Program
from binary_checks.reports import known_list
from fixtures.runs import PROFILE
from tests.plugin.conftest import NAME, Run, healthy, needy

CHECK = "missing-library"


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Put back the variables that our command sets in its process."""
    with patch.dict(os.environ):
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a healthy wheel in it."""
    healthy(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", OPTIONS)
def test_our_command_takes_each_option_by_either_name(name: str) -> None:
    for given in (f"--{name}", f"--binary-{name}"):
        assert list(lengthen([given, "x"])) == [f"--binary-{name}", "x"]
        assert list(lengthen([f"{given}=x"])) == [f"--binary-{name}=x"]


def test_what_is_no_option_of_ours_goes_to_pytest_as_it_is() -> None:
    others = ["-m", "linkage", "--tb=short", "--static-x", "static", "--", "--static"]
    assert list(lengthen(others)) == others


@pytest.mark.parametrize("name", sorted({*OPTIONS} - {"strict"}))  # pytest has one of its own
def test_pytest_refuses_a_short_name_and_says_the_long_one(
    pytester: pytest.Pytester, name: str
) -> None:
    said = rf"^unknown option --{name}: under pytest it is --binary-{name}$"
    with pytest.raises(pytest.UsageError, match=said):
        pytester.parseconfig(f"--{name}=x")


def test_an_option_that_a_conftest_declares_is_none_of_ours(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--place')")
    assert pytester.parseconfig("--place=home").option.place == "home"


@pytest.mark.parametrize(
    ("mistyped", "hint"),
    [("--binary-stattic", "; did you mean --binary-static?"), ("--binary-zzz", "")],
)
def test_pytest_suggests_the_long_name(pytester: pytest.Pytester, mistyped: str, hint: str) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        pytester.parseconfig(mistyped)
    assert caught.value.args == (f"unknown option {mistyped}{hint}",)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("stattic", "unknown option --stattic; did you mean --static?"),
        ("sandbox=never", "argument --sandbox: invalid choice: 'never' (choose from "),
        ("place=moon", "--place moon: unknown place; "),
        ("report=png:x", "--report png:x: unknown format 'png'"),
        ("with=notes.txt", "--with notes.txt: neither a package file nor a folder"),
        ("for=cp311-win_amd64", "--for cp311-win_amd64: no package of an index is named"),
    ],
)
def test_our_command_refuses_by_the_short_name(
    here: Path, capfd: pytest.CaptureFixture[str], option: str, said: str
) -> None:
    (here / "notes.txt").write_text("no wheel")
    for prefix in ("--", "--binary-"):
        assert main([NAME, f"{prefix}{option}"]) == 4
        assert capfd.readouterr().err.startswith(f"binary-checks: {said}")


def test_both_helps_name_the_options_as_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help-pytest"]) == 0
    lines = capsys.readouterr().out.splitlines()
    ours = lines[lines.index("checks of built binary packages:") :]
    for name in OPTIONS:
        assert [line for line in ours if line.startswith((f"  --{name}=", f"  --{name} "))] or (
            f"  --{name}" in ours
        )
    assert not [line for line in lines if "--binary-" in line]
    assert len([line for line in lines if line.startswith("  --strict ")]) == 1


def test_verdicts_and_reports_name_the_options_of_the_program(
    pytester: pytest.Pytester, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    needy(pytester.path)
    arguments = (f"{NAME}::{CHECK}", "--binary-report=json:result.json", "-v", "-rs")
    said = {Program.PYTEST: [run(*arguments).stdout.str(), Path("result.json").read_text("utf-8")]}
    capfd.readouterr()
    assert main(["--static", *arguments]) == 0
    said[Program.COMMAND] = [capfd.readouterr().out, Path("result.json").read_text("utf-8")]
    for program, texts in said.items():
        for text in texts:
            assert program.name_options("give it with --binary-with") in text
            assert program.name_options("were left out (--binary-static)") in text
            assert ("--binary-with" in text) is (program is Program.PYTEST)


@pytest.mark.parametrize("program", Program)
def test_a_list_of_known_problems_says_how_it_is_used(program: Program) -> None:
    run = RunResult(exit_code=0, profile=PROFILE, program=program)
    out = io.StringIO()
    known_list.write(run, out)
    used = {Program.PYTEST: "# --binary-known-problems THIS", Program.COMMAND: "# --known-problems"}
    assert used[program] in out.getvalue()
