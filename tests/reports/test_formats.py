"""What people and machines read of a run: text, Markdown, JUnit and GitHub's commands."""

from __future__ import annotations

import io
import re
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
from binary_checks.reports import REPORTS, Report, github, junit, markdown, terminal
from binary_checks.reports.writing import find_report
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


# That of github is made of commands, which are obeyed below.
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


# GitHub: annotations, and the job summary.

BAD = Problem(path="demo/a.so", sentence="is 50% wrong, in fact")
AT_ONCE = CheckText(id="c", family="linkage", title="T.", why="it hurts.", fix="mend it: now.")
EVIL_COMMAND = (
    "x\r\n::set-env name=A::b%0A::error::\u2028::stop-commands::,file=/etc/passwd|`<b>##[error]"
)


def obey(line: str) -> tuple[str, dict[str, str], str]:
    """What GitHub's runner makes of a line (ActionCommand.cs): command, properties, data."""
    found = re.match(r"\s*::(?P<command>[^ :]+)(?: (?P<properties>.*?))?::(?P<data>.*)\Z", line)
    assert found is not None, line
    stated = (each.split("=", 1) for each in (found["properties"] or "").split(","))
    properties = {key: unescape(value) for key, value in stated}
    return found["command"], properties, unescape(found["data"])


def unescape(text: str) -> str:
    for spelled, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(spelled, char)
    return text


def test_a_problem_annotates_its_package_with_why_and_fix() -> None:
    text = written(github, entry(Outcome.FAILED, problems=(BAD,)), checks=(AT_ONCE,))
    (line,) = text.splitlines()
    assert obey(line) == (
        "error",
        {"file": "dist/demo-1.0.whl", "title": "c: demo-1.0.whl"},
        "demo/a.so: is 50% wrong, in fact\nwhy: it hurts.\nfix: mend it: now.",
    )
    assert "50%25 wrong, in fact%0Awhy" in line
    assert "title=c%3A demo-1.0.whl::" in line


def test_errors_come_before_warnings_and_both_after_complaints() -> None:
    text = written(
        github,
        entry(Outcome.FAILED, problems=(BAD,), warnings=(MILD,)),
        entry(Outcome.ERROR, check="d", reason="no network"),
        complaints=("nothing was verified",),
    )
    commands = [obey(line) for line in text.splitlines()]
    assert [command for command, _, _ in commands] == ["error", "error", "error", "warning"]
    assert [data for _, _, data in commands][:2] == ["nothing was verified", "no network"]


def test_more_annotations_than_github_shows_are_counted() -> None:
    many = tuple(Problem(sentence=f"is wrong in way {number}") for number in range(25))
    lines = written(github, entry(Outcome.FAILED, problems=many)).splitlines()
    assert len(lines) == 11
    assert obey(lines[-1]) == (
        "notice",
        {"title": "binary_checks"},
        "15 more are in the job summary",
    )


def test_a_hostile_name_cannot_forge_a_command_or_a_property() -> None:
    evil = Problem(path=EVIL_COMMAND, sentence=EVIL_COMMAND)
    package = package_result(
        EVIL_COMMAND,
        entry(Outcome.FAILED, check=EVIL_COMMAND, problems=(evil,)),
        entry(Outcome.ERROR, check=EVIL_COMMAND, reason=EVIL_COMMAND),
        file_name=EVIL_COMMAND,
    )
    out = io.StringIO()
    run = RunResult(exit_code=1, profile=PROFILE, packages=(package,), complaints=(EVIL_COMMAND,))
    github.write(run, out)
    lines = out.getvalue().split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    for line in lines:
        command, properties, data = obey(line)
        assert command == "error"
        assert properties.keys() <= {"file", "title"}
        assert_harmless(data)  # also if something unescapes it and prints it once more


def test_the_job_summary_is_no_larger_than_github_takes() -> None:
    many = tuple(
        Problem(sentence=f"is wrong in way {number} {'x' * 400}") for number in range(9000)
    )
    text = written(find_report("github-summary"), entry(Outcome.FAILED, problems=many))
    assert 900_000 < len(text.encode()) <= 1 << 20
    assert text.endswith("`--report` writes the complete list.**\n")
