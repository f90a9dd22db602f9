"""Each outcome of a check stands on pytest's own phase, and says what there is to say."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from binary_checks.sources.file import FileSource
from tests.plugin.conftest import EXTENSION, IN_A_WORKER, NAME, Run, faulty, healthy

LINE = f"absolute-search-path: {NAME}: {EXTENSION}: "

BLIND = """
from binary_checks import check
from binary_checks.model import NotInspected, Wheel

@check
def blind(wheel: Wheel):
    "A check that cannot see."
    yield NotInspected(sentence="no light")
"""


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_a_problem_is_one_line_at_column_0_in_junit_and_in_the_short_summary(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    result = run(faulty(pytester.path), "--junitxml=report.xml", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"FAILED *::absolute-search-path - {EXTENSION}: looks for *"])
    (shown,) = {line for line in result.outlines if line.startswith(LINE)}
    assert "/tmp/build" in shown
    (failure,) = ElementTree.parse(pytester.path / "report.xml").iter("failure")
    assert failure.get("message") == shown
    assert shown in (failure.text or "").splitlines()


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_the_short_summary_names_a_bug_of_ours(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (pytester.path / "my_checks.py").write_text(BLIND + "    raise ValueError('a\\nb')\n")
    (pytester.path / "own.toml").write_text("checks = ['my_checks.py']\n")
    own = ("--binary-profile", "own.toml", "-k", "blind or absolute-search-path")
    broke = "blind broke: ValueError: a\\nb (my_checks.py:9)"
    result = run(healthy(pytester.path), *own, "--full-trace", *workers)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.assert_outcomes(errors=1, passed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines([f"ERROR *::blind - *CheckError: {broke}"])
    assert [line for line in result.outlines if line.endswith(f"CheckError: {broke}")]
    assert f"error: {broke} (my_checks)" in result.outlines


def test_what_could_not_be_inspected_is_a_skip_that_names_the_package(
    pytester: pytest.Pytester, run: Run
) -> None:
    (pytester.path / "my_checks.py").write_text(BLIND)
    pytester.makepyprojecttoml("[tool.binary_checks]\nchecks = ['my_checks.py']\n")
    result = run(healthy(pytester.path), "-k", "blind", "-rs", "--junitxml=report.xml")
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] demo-1.0-*.whl:1: not inspected: no light"])
    assert "items.py" not in (pytester.path / "report.xml").read_text()


def test_what_another_plugin_interrupts_is_an_error_of_that_item(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    (pytester.path / "own.py").write_text(
        "import pytest\n"
        "from binary_checks import Problem, check\n"
        "from binary_checks.model import WheelLike\n"
        "@check\n"
        "def too_slow(wheel: WheelLike):\n"
        '    """Take longer than pytest-timeout allows."""\n'
        "    pytest.fail('Timeout (>1s)')\n"
        "    yield Problem()\n"
    )
    (pytester.path / "own.toml").write_text('checks = ["own.py"]\n')
    result = run(NAME, "--binary-profile", "own.toml", "-k", "too-slow or absolute-search-path")
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 3
    result.stdout.fnmatch_lines(["error: Failed: Timeout (>1s) (own)"])


def test_a_report_that_another_plugin_interrupts_is_an_error_of_that_item(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = healthy(pytester.path)

    def identify_slowly(_: FileSource) -> str:
        pytest.fail("Timeout (>1s)")

    monkeypatch.setattr(FileSource, "identity", identify_slowly)
    result = run(wheel.name, "--binary-report", "json:r.json", "-k", "absolute-search-path")
    result.assert_outcomes(errors=1)
    (package,) = json.loads((pytester.path / "r.json").read_text())["packages"]
    (entry,) = package["entries"]
    assert (entry["outcome"], entry["reason"]) == ("broken", "Failed: Timeout (>1s)")
