"""All packages of a run together have a node: items, outcomes, an exit code, a place in reports."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures.build_wheel import build_wheel

PYTHONS = ("cp311-cp311-win_amd64", "cp312-cp312-win_amd64")


def build(folder: Path, *commits: str) -> None:
    for tag, commit in zip(PYTHONS, commits, strict=True):
        text = f"git_version = '{commit * 40}'\n"
        build_wheel(folder, tags=[tag], members={"demo/version.py": text, "demo/__init__.py": ""})


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    wheels = sorted(path.name for path in pytester.path.glob("*.whl"))
    return pytester.runpytest_inprocess("--binary-static", *arguments, *wheels)


def test_wheels_of_one_version_are_judged_together(pytester: pytest.Pytester) -> None:
    build(pytester.path, "a", "a")
    result = run(pytester, "-m", "release", "-v")
    result.stdout.fnmatch_lines(["release::commits-differ-in-release PASSED*"])
    assert result.ret == pytest.ExitCode.OK


def test_a_fault_of_the_set_fails_the_run_and_stands_in_every_report(
    pytester: pytest.Pytester,
) -> None:
    build(pytester.path, "a", "b")
    reports = [f"--binary-report={each}" for each in ("json:r.json", "sarif:r.sarif", "facts:f/")]
    result = run(pytester, "-m", "release or archive", "--junitxml=r.xml", *reports)
    line = "commits-differ-in-release: release: demo-1.0-cp312-cp312-win_amd64.whl: *commit bbb*"
    result.stdout.fnmatch_lines([line])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    packages = json.loads(Path("r.json").read_text())["packages"]
    assert {each["node"]: each.get("parts", 0) for each in packages}["release"] == 2
    assert "release" in Path("r.sarif").read_text()
    cases = ElementTree.parse("r.xml").iter("testcase")
    assert "commits-differ-in-release" in {case.get("name") for case in cases}
    assert len([*Path("f").iterdir()]) == 2


def test_an_expected_set_is_judged_for_a_single_package_too(pytester: pytest.Pytester) -> None:
    build_wheel(pytester.path, tags=PYTHONS[:1])
    Path("set.txt").write_text("demo-*-cp311-*\ndemo-*-cp313-*\n")
    result = run(pytester, "-m", "release", "--binary-expect-set", "set.txt")
    result.stdout.fnmatch_lines(
        ["file-missing-from-release: release: no file * matches demo-?-cp313-?* of set.txt"]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_one_check_of_it_is_asked_for_by_its_node_and_without_one_nothing_is_said_of_it(
    pytester: pytest.Pytester,
) -> None:
    build(pytester.path, "a", "b")
    result = run(pytester, "release::requirements-differ-in-release", "-m", "release")
    assert result.parseoutcomes()["passed"] == 1
    assert result.ret == pytest.ExitCode.OK
    result = run(pytester, "-m", "archive")
    result.stdout.no_fnmatch_line("*release:*")
    assert result.ret == pytest.ExitCode.OK


def test_packages_with_nothing_in_common_have_none(pytester: pytest.Pytester) -> None:
    build_wheel(pytester.path, tags=PYTHONS[:1])
    result = run(pytester, "--collect-only", "-q")
    result.stdout.no_fnmatch_line("release::*")
    asked = run(pytester, "release")
    asked.stderr.fnmatch_lines(["ERROR: release: these packages cannot be compared: *"])
    assert asked.ret == pytest.ExitCode.USAGE_ERROR
