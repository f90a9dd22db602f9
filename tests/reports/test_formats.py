"""What people and machines read of a run: text, Markdown and JUnit, each out of the same values."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest

from binary_checks.model import (
    Accepted,
    CheckText,
    Entry,
    Level,
    NotInspected,
    Outcome,
    Problem,
    RunResult,
)
from binary_checks.reports import REPORTS, Report, junit, markdown, terminal
from fixtures.runs import PROFILE, package_result
from tests.test_safe_text import assert_harmless

OPT = Problem(path="demo/a.so", sentence="search path /opt/lib")
MILD = Problem(path="demo/b.so", sentence="is unusual", level=Level.WARNING)
LINE = "c: demo-1.0.whl: demo/a.so: search path /opt/lib"
TEXT = CheckText(id="c", family="linkage", title="T.", why="it leads nowhere.", fix="mend it.")
EVIL = "\x1b[31m\n::error::\u202e##vso[x]`</code><b>|@you <script>alert(1)</script>&"


def entry(outcome: Outcome = Outcome.PASSED, **fields: Any) -> Entry:
    return Entry(**{"check": "c", "family": "linkage", "outcome": outcome, **fields})


def written(report: Any, *entries: Entry, **fields: Any) -> str:
    packages = (package_result("dist/demo-1.0.whl", *entries, version="1.0"),)
    run = RunResult(**{"exit_code": 1, "profile": PROFILE, "packages": packages, **fields})
    out = io.StringIO()
    report.write(run, out)
    return out.getvalue()


def cases(*entries: Entry, **fields: Any) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(written(junit, *entries, **fields)).iter("testcase"))


def test_a_format_has_a_name_of_its_own() -> None:
    names = [report.name for report in REPORTS]
    assert len(set(names)) == len(names)


def test_text_has_the_verdict_then_the_problems_and_what_to_do() -> None:
    lines = written(terminal, entry(Outcome.FAILED, problems=(OPT,)), checks=(TEXT,)).splitlines()
    assert lines == [
        "demo-1.0.whl: unfit · 1 problem · 1 check, not run",
        LINE,
        "  fix: mend it",
        "1 package: 1 unfit    why: binary-checks --explain c",
    ]


def test_text_has_fifty_problems_of_a_check_and_says_how_many_more() -> None:
    many = tuple(Problem(sentence=f"number {number:03}") for number in range(70))
    text = written(terminal, entry(Outcome.FAILED, problems=many))
    assert text.count("c: demo-1.0.whl: number") == 50
    assert "  and 20 more (c)\n" in text
    assert "20 not shown; the same command with --report json:" in text


def test_a_warning_is_a_line_that_says_so() -> None:
    lines = written(terminal, entry(Outcome.WARNED, inspected=2, warnings=(MILD,))).splitlines()
    assert lines[0] == "demo-1.0.whl: fit with 1 warning · 1 check, not run"
    assert lines[1] == "warning: c: demo-1.0.whl: demo/b.so: is unusual"


def test_markdown_has_a_row_a_package_and_tells_problems_accepted_ones_and_gaps_apart() -> None:
    lines = written(
        markdown,
        entry(Outcome.FAILED, problems=(OPT,), warnings=(MILD,)),
        entry(Outcome.ACCEPTED, check="d", accepted=(Accepted(problem=OPT, reason="issue 7"),)),
        entry(Outcome.NOT_INSPECTED, check="e", reason="no driver"),
        entry(Outcome.ERROR, check="f", reason="no network"),
        entry(Outcome.NOT_APPLICABLE, check="g"),
        entry(check="h", family="symbols", inspected=1),
        checks=(TEXT,),
    ).splitlines()
    assert lines[0] == "# binary_checks: 1 package: 1 unfit"
    assert "| `demo-1.0.whl` | `1.0` | **unfit** | 3 | 1 | 1 | 1 |" in lines
    assert f"    {LINE}" in lines
    assert "**Fix:** mend it." in lines
    assert "    warning: c: demo-1.0.whl: demo/b.so: is unusual" in lines
    assert "- `accepted: d: demo/a.so: search path /opt/lib (issue 7)`" in lines
    assert "- `not inspected: e: no driver`" in lines
    assert "- `error: f: no network`" in lines


def test_a_healthy_package_has_a_row_and_no_section() -> None:
    text = written(markdown, entry(inspected=1), exit_code=0)
    assert "| fit | 1 | 0 | 0 | 0 |" in text
    assert "##" not in text


def test_junit_has_a_suite_a_package_and_a_case_a_check() -> None:
    suites = ElementTree.fromstring(
        written(
            junit,
            entry(Outcome.FAILED, problems=(OPT,), seconds=1.5),
            entry(Outcome.ERROR, check="d", reason="no network"),
            entry(Outcome.NOT_APPLICABLE, check="e", reason="no ELF object"),
            entry(check="f"),
        )
    )
    (suite,) = suites.iter("testsuite")
    assert suite.attrib == {
        "name": "dist/demo-1.0.whl",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "1.500",
    }
    found = {case.get("name"): [(part.tag, part.get("message")) for part in case] for case in suite}
    assert found == {
        "c": [("failure", LINE)],
        "d": [("error", "error: no network")],
        "e": [("skipped", "not applicable: no ELF object")],
        "f": [],
    }


def test_junit_has_every_problem_and_beside_it_what_was_accepted_or_not_inspected() -> None:
    (case,) = cases(
        entry(
            Outcome.FAILED,
            problems=(OPT, Problem(sentence="another")),
            accepted=(Accepted(problem=OPT, reason="issue 7"),),
            not_inspected=(NotInspected(sentence="no light"),),
        )
    )
    (failure,) = case
    assert str(failure.text).splitlines() == [
        LINE,
        "c: demo-1.0.whl: another",
        f"accepted: {LINE} (issue 7)",
        "not inspected: c: demo-1.0.whl: no light",
    ]


def test_junit_has_warnings_as_properties_of_a_case_that_passed() -> None:
    (case,) = cases(entry(Outcome.WARNED, warnings=(MILD,)))
    assert [part.tag for part in case] == ["properties"]
    (warning,) = case.iter("property")
    assert warning.attrib == {
        "name": "warning",
        "value": "c: demo-1.0.whl: demo/b.so: is unusual",
    }


def test_junit_is_not_green_where_the_run_complains() -> None:
    (case,) = cases(complaints=("demo-1.0.whl: nothing was verified",), packages=())
    (failure,) = case
    assert failure.get("message") == "demo-1.0.whl: nothing was verified"


# That of github is made of commands: tests/reports/test_ci_reports.py obeys them.
INERT = [report for report in REPORTS if not report.of_facts and report.name != "github"]


@pytest.mark.parametrize("report", INERT, ids=lambda r: r.name)
def test_what_a_package_says_is_inert_in_every_report(report: Report) -> None:
    evil = Problem(path=EVIL, sentence=EVIL)
    entries = (
        entry(Outcome.FAILED, problems=(evil,), warnings=(evil,)),
        entry(Outcome.ACCEPTED, check="d", accepted=(Accepted(problem=evil, reason=EVIL),)),
        entry(Outcome.NOT_INSPECTED, check="e", reason=EVIL),
        entry(Outcome.ERROR, check="f", reason=EVIL),
    )
    packages = (package_result("x.whl", *entries, file_name=EVIL, version=EVIL),)
    text = written(report, packages=packages, complaints=("fine",))
    for line in text.split("\n"):
        assert_harmless(line)
    if report.name == "junit":
        tags = {element.tag for element in ElementTree.fromstring(text).iter()}
        assert not tags & {"b", "script"}
    if report.name == "markdown":
        outside = [line for line in text.splitlines() if not line.startswith("    ")]
        assert not [line for line in outside if _plain_parts(line, "<script>")]


def _plain_parts(line: str, text: str) -> bool:
    """Whether the text stands outside of code in a line of Markdown."""
    while "`" in line:
        before, _, rest = line.partition("`")
        fence = "`" * (1 + len(rest) - len(rest.lstrip("`")))
        rest = rest.lstrip("`")
        if text in before:
            return True
        _, closed, line = rest.partition(fence)
        assert closed
    return text in line
