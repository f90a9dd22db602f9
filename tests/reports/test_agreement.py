"""All reports of a run count the same faults, and tell its packages apart."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from binary_checks.model import Accepted, CheckText, Entry, Level, Outcome, Problem, RunResult
from binary_checks.reports import github, html, junit, markdown, sarif, terminal
from fixtures.runs import PROFILE, package_result

LOST = "library libdep.so.1"
NEEDS = Problem(path="demo/a.so", sentence="needs libdep.so.1", cause=LOST)
ALSO_NEEDS = Problem(path="demo/b.so", sentence="needs libdep.so.1", cause=LOST)
FAILS = Problem(sentence="import demo fails", cause=LOST, consequence=True)
LITTER = Problem(path="demo/x.pyc", sentence="is litter", level=Level.WARNING)
TEXT = CheckText(id="missing-library", family="linkage", title="T.", why="w.", fix="f.")
LINE = (
    "missing-library: demo-1.0.whl: demo/a.so: needs libdep.so.1 (and 1 more file: demo/b.so) "
    "[also: import-fails]"
)


def entry(check: str, family: str, *problems: Problem, **fields: Any) -> Entry:
    outcome = Outcome.FAILED if problems else Outcome.PASSED
    own = {"check": check, "family": family, "outcome": outcome, "inspected": 1}
    return Entry(**{**own, "problems": problems, **fields})


ENTRIES = (
    entry("import-fails", "runtime", FAILS),
    entry("missing-library", "linkage", NEEDS, ALSO_NEEDS),
    entry("bytecode-in-wheel", "contents", warnings=(LITTER,), outcome=Outcome.WARNED),
)


def written(report: Any, *packages: Any, **fields: Any) -> str:
    packages = packages or (package_result("dist/demo-1.0.whl", *ENTRIES, version="1.0"),)
    given = {"exit_code": 1, "profile": PROFILE, "packages": packages, "checks": (TEXT,), **fields}
    out = io.StringIO()
    report.write(RunResult(**given), out)
    return out.getvalue()


def results(*packages: Any) -> list[dict[str, Any]]:
    (run,) = json.loads(written(sarif, *packages))["runs"]
    return list(run["results"])


def fingerprints(found: list[dict[str, Any]]) -> list[str]:
    return [each["partialFingerprints"]["problem/v1"] for each in found]


def test_a_fault_that_two_checks_found_counts_once_and_is_the_same_line_in_every_report() -> None:
    assert LINE in written(terminal)
    assert LINE in written(markdown)
    assert LINE in [each["message"]["text"] for each in results()]
    assert LINE in [each.get("message") for each in cases().values()]
    assert "unfit · 1 problem, 1 warning · 3 checks" in written(terminal)
    assert "| **unfit** | 3 | 1 | 1 | 0 |" in written(markdown)
    suite = ElementTree.fromstring(written(junit)).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert [each["level"] for each in results()] == ["error", "warning"]
    healthy = package_result("dist/other-1.0.whl", entry("missing-library", "linkage"))
    pages = written(html, package_result("dist/demo-1.0.whl", *ENTRIES), healthy)
    row = re.search(r'<td class="number">(\d+)</td><td class="number">(\d+)</td></tr>', pages)
    assert row is not None
    assert row.groups() == ("1", "1")
    assert '<td class="number bad">elsewhere</td>' in pages  # a family does not seem to pass
    follower = cases()["import-fails"]
    assert follower.tag == "skipped"
    assert follower.get("message") == "the same fault as missing-library"
    assert "import demo fails" in str(follower.text)


def cases() -> dict[str, ElementTree.Element]:
    """The element in each case of JUnit that did not pass."""
    found = ElementTree.fromstring(written(junit)).iter("testcase")
    return {str(case.get("name")): case[0] for case in found if len(case)}


def test_problems_accepted_for_one_reason_are_one_line_and_count_as_faults() -> None:
    many = tuple(
        Accepted(
            problem=Problem(
                path=f"{number}.so", sentence=f"needs lib{number}.so", cause=f"{number}"
            ),
            reason="issue 7",
            expires="2027-01-31",
        )
        for number in range(50)
    )
    known = entry("missing-library", "linkage", accepted=many, outcome=Outcome.ACCEPTED)
    package = package_result("dist/demo-1.0.whl", known)
    for text in (written(terminal, package), written(markdown, package)):
        assert text.count("issue 7") == 1
        assert "needs lib0.so; and 49 more problems (issue 7, until 2027-01-31)" in text
    assert "fit with 50 accepted problems" in written(terminal, package)
    assert "| fit | 1 | 0 | 0 | 50 |" in written(markdown, package)


def test_wheels_of_one_name_in_two_folders_are_told_apart() -> None:
    packages = [
        package_result(f"dist/{each}/demo-1.0.whl", *ENTRIES, label=f"{each}/demo-1.0.whl")
        for each in "ab"
    ]
    for report in (terminal, markdown, html, junit):
        text = written(report, *packages)
        assert "a/demo-1.0.whl" in text
        assert "b/demo-1.0.whl" in text
    assert len(set(fingerprints(results(*packages)))) == 4


def test_results_with_the_same_identity_have_different_fingerprints() -> None:
    twice = entry("some-check", "linkage", *(Problem(sentence=f"{n} bytes") for n in (7, 8)))
    first, second = fingerprints(results(package_result("dist/demo-1.0.whl", twice)))
    assert first != second
    (alone,) = fingerprints(
        results(package_result("dist/demo-1.0.whl", entry("some-check", "linkage", LITTER)))
    )
    assert alone not in (first, second)


@pytest.mark.parametrize("level", [Level.ERROR, Level.WARNING])
def test_a_rule_states_the_level_of_its_check(level: Level) -> None:
    text = CheckText(id="c", family="linkage", title="T.", why="w.", fix="f.", level=level)
    (run,) = json.loads(written(sarif, checks=(text,)))["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["defaultConfiguration"] == {"level": level.value}


def test_a_release_is_not_counted_as_a_package() -> None:
    together = package_result("release", entry("commits-differ", "release", LITTER), parts=2)
    wheels = [package_result(f"dist/{each}.whl", entry("c", "linkage")) for each in ("a", "b")]
    assert "2 packages: 2 fit; release: unfit" in written(terminal, *wheels, together)
    page = written(html, *wheels, together)
    assert "All 2 packages are fit to ship, but the release is unfit" in page
    assert '<li class="unfit"><bdi>release: unfit</bdi></li>' in page


OWN_FIX = "compile both with the same ``_GLIBCXX_USE_CXX11_ABI``"


def test_a_problem_with_its_own_remedy_has_it_in_every_report_in_place_of_its_check_s() -> None:
    problem = Problem(path="demo/a.so", sentence="has 1 undefined symbol", fix=OWN_FIX)
    failed = entry("missing-library", "linkage", problem)
    package = package_result("dist/demo-1.0.whl", failed)
    assert "  fix: compile both with the same _GLIBCXX" in written(terminal, package).replace(
        "'", ""
    )
    assert "**Fix:** compile both with the same `_GLIBCXX_USE_CXX11_ABI`" in written(
        markdown, package
    )
    assert "<dt>Fix</dt><dd>compile both with the same <code>_GLIBCXX" in written(html, package)
    assert "**Fix:** f" not in written(markdown, package)
    assert "fix: compile both" in written(github, package)
    special = Problem(path="demo/a.so", sentence="has 1 undefined symbol", fix=OWN_FIX)
    failed = entry("missing-library", "linkage", special, NEEDS)
    text = written(markdown, package_result("dist/demo-1.0.whl", failed))
    assert text.count("**Fix:**") == 2


def test_a_command_that_mends_a_warning_is_shown() -> None:
    mild = Problem(
        path="demo/a.so",
        sentence="looks in /opt",
        level=Level.WARNING,
        command="patchelf --remove-rpath {path}",
    )
    warned = entry("absolute-search-path", "linkage", warnings=(mild,), outcome=Outcome.WARNED)
    text = written(terminal, package_result("dist/demo-1.0.whl", warned))
    assert "  run: patchelf --remove-rpath demo/a.so\n" in text


def test_what_users_see_stands_below_the_fault_that_explains_it() -> None:
    seen = "users see: import demo fails"
    assert f"\n  {seen}\n" in written(terminal)
    assert f"      {seen}\n" in written(markdown)
    assert "Users see: <bdi>import demo fails</bdi>" in written(html)
    assert seen in written(github)
