"""What GitHub reads of a run: annotations and the job summary."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, TextIO

from binary_checks.model import CheckText, Entry, Level, Outcome, Problem, RunResult
from binary_checks.reports import github, markdown
from fixtures.runs import PROFILE, package_result
from tests.test_safe_text import assert_harmless

BAD = Problem(path="demo/a.so", sentence="is 50% wrong, in fact")
MILD = Problem(path="demo/b.so", sentence="is unusual", level=Level.WARNING)
TEXT = CheckText(id="c", family="linkage", title="T.", why="it hurts.", fix="mend it: now.")
EVIL = "x\r\n::set-env name=A::b%0A::error::\u2028::stop-commands::,file=/etc/passwd|`<b>##[error]"


def entry(outcome: Outcome = Outcome.PASSED, **fields: Any) -> Entry:
    return Entry(**{"check": "c", "family": "linkage", "outcome": outcome, **fields})


def written(write: Callable[[RunResult, TextIO], None], *entries: Entry, **fields: Any) -> str:
    packages = (package_result("dist/demo-1.0.whl", *entries),)
    run = RunResult(**{"exit_code": 1, "profile": PROFILE, "packages": packages, **fields})
    out = io.StringIO()
    write(run, out)
    return out.getvalue()


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
    text = written(github.write, entry(Outcome.FAILED, problems=(BAD,)), checks=(TEXT,))
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
        github.write,
        entry(Outcome.FAILED, problems=(BAD,), warnings=(MILD,)),
        entry(Outcome.ERROR, check="d", reason="no network"),
        complaints=("nothing was verified",),
    )
    commands = [obey(line) for line in text.splitlines()]
    assert [command for command, _, _ in commands] == ["error", "error", "error", "warning"]
    assert [data for _, _, data in commands][:2] == ["nothing was verified", "no network"]


def test_more_annotations_than_github_shows_are_counted() -> None:
    many = tuple(Problem(sentence=f"is wrong in way {number}") for number in range(25))
    lines = written(github.write, entry(Outcome.FAILED, problems=many)).splitlines()
    assert len(lines) == 11
    assert obey(lines[-1]) == (
        "notice",
        {"title": "binary_checks"},
        "15 more are in the job summary",
    )


def test_a_hostile_name_cannot_forge_a_command_or_a_property() -> None:
    evil = Problem(path=EVIL, sentence=EVIL)
    package = package_result(
        EVIL,
        entry(Outcome.FAILED, check=EVIL, problems=(evil,)),
        entry(Outcome.ERROR, check=EVIL, reason=EVIL),
        file_name=EVIL,
    )
    out = io.StringIO()
    run = RunResult(exit_code=1, profile=PROFILE, packages=(package,), complaints=(EVIL,))
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
    text = written(markdown.write_job_summary, entry(Outcome.FAILED, problems=many))
    assert 900_000 < len(text.encode()) <= 1 << 20
    assert text.endswith("`--report` writes the complete list.**\n")
