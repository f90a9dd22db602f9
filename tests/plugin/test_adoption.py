"""A project adopts the checks: it accepts today's problems, and hears of new, old and gone ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binary_checks.reports.known_list import REASON
from tests.plugin.conftest import NAME, TRY_AGAIN, Run, faulty, healthy

CHECK = "absolute-search-path"
LINE = f"{CHECK}: {NAME}: demo/_native.cpython-311-x86_64-linux-gnu.so: looks for libraries in"


def known(folder: Path, **fields: str) -> Path:
    path = folder / "known.toml"
    values = {"check": f'"{CHECK}"', "reason": '"issue 7"', **fields}
    entry = "\n".join(f"{key} = {value}" for key, value in values.items())
    path.write_text(f"[[known_problems]]\n{entry}\n")
    return path


def test_todays_problems_are_written_and_accepted_from_then_on(
    pytester: pytest.Pytester, run: Run
) -> None:
    faulty(pytester.path)
    first = run(NAME, "--binary-write-known", "new.toml")
    assert first.ret == pytest.ExitCode.TESTS_FAILED
    first.stdout.fnmatch_lines(["new.toml: accepts 1 problem of this run until *"])
    second = run(NAME, "--binary-known-problems", "new.toml")
    assert second.ret == pytest.ExitCode.OK
    assert second.parseoutcomes()["xfailed"] == 1
    second.stdout.fnmatch_lines([f"accepted: {LINE} * ({REASON}, until *)"])
    second.stdout.fnmatch_lines(["new.toml: 1 entry still lacks a reason"])


def test_a_list_that_is_there_is_added_to_and_nothing_in_it_changes(
    pytester: pytest.Pytester, run: Run
) -> None:
    faulty(pytester.path)
    text = "# ours\n[[known_problems]]\ncheck = 'bytecode-in-wheel'\nreason = 'r'\npackage = 'x'"
    path = pytester.path / "known.toml"
    path.write_text(text)  # without an end of line
    assert run(NAME, "--binary-write-known", "known.toml").ret == pytest.ExitCode.TESTS_FAILED
    added = path.read_text()
    assert added.startswith(f"{text}\n# looks for libraries in /tmp/build/lib")
    again = run(NAME, "--binary-write-known", "known.toml")
    assert again.ret == pytest.ExitCode.OK
    again.stdout.fnmatch_lines(["known.toml: no new problem to accept"])
    assert path.read_text() == added


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_list_that_cannot_be_written_is_a_line_and_no_promise(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    result = run(NAME, "--binary-write-known", "/dev/full")
    assert result.ret == TRY_AGAIN
    result.stdout.fnmatch_lines(["--binary-write-known: /dev/full: cannot be written: *"])
    result.stdout.no_fnmatch_line("*no new problem*")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_where_another_report_fails_the_list_is_not_added_to_twice(
    pytester: pytest.Pytester, run: Run
) -> None:
    faulty(pytester.path)
    path = pytester.path / "known.toml"
    path.write_text("# ours\n")
    run(NAME, "--binary-write-known", "known.toml", "--binary-report", "sarif:/dev/full")
    assert path.read_text().count("[[known_problems]]") == 1


def test_accepted_problems_are_named_in_every_report(pytester: pytest.Pytester, run: Run) -> None:
    faulty(pytester.path)
    known(pytester.path, expires="2999-12-31")
    formats = ("terminal", "markdown", "junit", "sarif", "json")
    options = ["-rx", *(f"--binary-report={each}:all.{each}" for each in formats)]
    result = run(NAME, "--binary-known-problems", "known.toml", "--junit-xml=pytest.xml", *options)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["XFAIL *::absolute-search-path - 1 accepted: issue 7"])
    for each in ("all.terminal", "all.junit", "pytest.xml"):
        text = (pytester.path / each).read_text("utf-8")
        assert f"accepted: {LINE}" in text, each
        assert "(issue 7, until 2999-12-31)" in text, each
    page = (pytester.path / "all.markdown").read_text("utf-8")
    assert f"accepted: {CHECK}: demo/_native" in page
    (suppressed,) = json.loads((pytester.path / "all.sarif").read_text())["runs"][0]["results"]
    assert suppressed["suppressions"][0]["justification"] == "issue 7"
    assert '"expires": "2999-12-31"' in (pytester.path / "all.json").read_text()


def test_an_expired_entry_says_if_its_problem_is_still_there_and_one_whose_problem_is_gone_says_so(
    pytester: pytest.Pytester, run: Run
) -> None:
    faulty(pytester.path)
    path = known(pytester.path, check="'record-is-wrong'")
    path.write_text(path.read_text() + known(pytester.path, expires="2026-01-31").read_text())
    result = run(NAME, "--binary-known-problems", "known.toml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"{LINE} *"])
    said = "known problem 'issue 7' expired on 2026-01-31, but 1 problem that it accepted remains"
    where = "(known problems known.toml: known_problems[[]1])"
    result.stdout.fnmatch_lines(
        [f"{CHECK}: {NAME}: {said}; fix the problem, or renew the entry {where}"]
    )
    result.stdout.no_fnmatch_line(f"{CHECK}: *matched nothing*")
    gone = f"record-is-wrong: {NAME}: known problem 'issue 7' matched nothing; remove it (known "
    line = next(n for n, each in enumerate(result.outlines) if each.startswith(gone))
    assert not result.outlines[line + 1].startswith("  fix: ")  # which mends packages, not lists


@pytest.mark.parametrize(
    ("text", "option", "said"),
    [
        ("[[known", "--binary-known-problems", "known problems known.toml: not TOML: *"),
        ("[[known", "--binary-write-known", "known problems known.toml: not TOML: *"),
        ("[tool.x]\n", "--binary-write-known", "known problems known.toml:1: unknown key 'tool'"),
        (
            "[[known_problems]]\ncheck = 'absolute-search-paths'\nreason = 'r'\n",
            "--binary-known-problems",
            "known problems known.toml:2: known_problems[[]0]: unknown check "
            "'absolute-search-paths'; did you mean 'absolute-search-path'[?]",
        ),
    ],
)
def test_a_list_that_is_none_is_one_line_and_stays_what_it_is(
    pytester: pytest.Pytester, run: Run, text: str, option: str, said: str
) -> None:
    healthy(pytester.path)
    path = pytester.path / "known.toml"
    path.write_text(text)
    result = run(NAME, option, "known.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])
    assert path.read_text() == text
