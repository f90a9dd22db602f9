"""The second opinion as users ask for it: --binary-crosscheck."""

from __future__ import annotations

import pytest

from binary_checks.crosscheck import opinion
from fixtures.samples import FOLDER
from tests.plugin.conftest import NAME, Run, healthy

NODE = f"{NAME}::readers-disagree"
WRONG = {"soname": "our.so", "stack": "ours"}


def test_readers_that_agree_pass_and_say_who_was_asked_and_nobody_is_without_the_option(
    pytester: pytest.Pytester, run: Run
) -> None:
    healthy(pytester.path)
    result = run(NAME, "--binary-crosscheck", "-m", "crosscheck", "-rA")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*facts of 1 objects read the same in LIEF *, pyelftools *"])
    result.stdout.fnmatch_lines([f"PASSED {NODE}"])
    assert "readers-disagree" not in run(NAME, "--collect-only", "-q").stdout.str()


def test_readers_that_disagree_name_file_fact_library_and_both_answers(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(pytester.path)
    real = opinion.our_facts
    monkeypatch.setattr(opinion, "our_facts", lambda item: {**real(item), **WRONG})
    result = run(NAME, "--binary-crosscheck", "-m", "crosscheck", "--junit-xml=report.xml")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR  # 3: ours, and no problem of the package
    result.assert_outcomes(errors=1, deselected=result.parseoutcomes()["deselected"])
    assert 'errors="1"' in (pytester.path / "report.xml").read_text()
    place = f"readers-disagree: {NAME}: demo/_native.cpython-311-x86_64-linux-gnu.so: "
    for fact, ours, theirs in (("soname", "our.so", "nothing"), ("stack", "ours", "RW")):
        answers = f"we read {ours}, * reads {theirs}"
        result.stdout.fnmatch_lines([f"{place}readers disagree about {fact}: {answers}"])
    assert "Traceback" not in result.stdout.str()


def test_a_file_that_a_library_does_not_parse_is_not_inspected(
    pytester: pytest.Pytester, run: Run
) -> None:
    members = {"demo/a.dylib": (FOLDER / "macho/universal2_64.dylib").read_bytes()}
    healthy(pytester.path, members=members)
    arguments = (NAME, "--binary-crosscheck", "-m", "crosscheck")
    result = run(*arguments)
    result.assert_outcomes(skipped=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(
        ["not inspected: demo/a.dylib: second opinion unavailable: LIEF *: *not parse the file *"]
    )
    required = run(*arguments, "--binary-require", "crosscheck")
    assert required.ret == pytest.ExitCode.TESTS_FAILED
