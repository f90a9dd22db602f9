"""A profile's snippet is judged by how it ended, what it printed, and whether it could look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.expected import snippet_fails
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Code,
    Ending,
    Finding,
    Note,
    NotInspected,
    Problem,
    SnippetReport,
    SnippetRequest,
    SnippetRun,
    Step,
)
from fixtures.values import only

CODE = {"blas": Code("import demo; assert demo.blas")}


def ran(printed: str = "", unavailable: str = "", **fields: Any) -> SnippetReport:
    step = Step(name="blas", **fields)
    run = SnippetRun(step=step, printed=printed, unavailable=unavailable)
    return SnippetReport(python="CPython 3.11.7", system="linux-x86_64", runs=(run,))


def judge(
    report: SnippetReport, only: Mapping[str, tuple[str, ...]] | None = None, **options: Any
) -> list[Finding]:
    return list(snippet_fails(report, SnippetRequest(code=CODE, only=only or {}), **options))


ASSERTION = "AssertionError at line 1: assert demo.blas"


@pytest.mark.parametrize(
    ("outcome", "detail", "how"),
    [
        (Ending.RAISED, ASSERTION, f"raises {ASSERTION}"),
        (Ending.CRASHED, "SIGSEGV", "crashes: SIGSEGV"),
        (Ending.HUNG, "300 s", "hangs: 300 s"),
        (Ending.EXITED, "SystemExit(1)", "ends the process: SystemExit(1)"),
    ],
)
def test_a_bad_end_is_a_problem(outcome: Ending, detail: str, how: str) -> None:
    found = judge(ran(outcome=outcome, detail=detail))
    assert found == [Problem(sentence=f"snippet blas {how}")]
    late = judge(ran(outcome=Ending.CRASHED, detail="SIGABRT", finished=True))
    sentence = "snippet blas is done, but its process then crashes: SIGABRT"
    assert late == [Problem(sentence=sentence)]


@pytest.mark.parametrize(
    ("printed", "shown"), [("False", "False"), ("x" * 500, "x" * 500), ("x" * 501, "x" * 500)]
)
def test_the_wrong_words_are_a_problem(printed: str, shown: str) -> None:
    assert judge(ran(printed), prints={"blas": "True\n"}) == [
        Problem(sentence=f"snippet blas prints {shown!r}, where 'True' is expected")
    ]
    assert judge(ran("True"), prints={"blas": "True\n"}) == []
    assert judge(ran(printed)) == []


def test_what_a_snippet_could_not_look_at_is_no_pass() -> None:
    assert judge(ran(unavailable="no compiler here"), prints={"blas": "True"}) == [
        NotInspected(sentence="snippet blas: no compiler here")
    ]


def test_a_snippet_for_other_systems_is_told() -> None:
    here = ran()
    report = SnippetReport(
        python=here.python, system=here.system, runs=here.runs, elsewhere=("onednn",)
    )
    code = {**CODE, "onednn": Code("pass")}
    asked = SnippetRequest(code=code, only={"onednn": ("*-aarch64",)})
    assert list(snippet_fails(report, asked)) == [
        Note(sentence="snippet onednn is for *-aarch64 only")
    ]
    none = SnippetReport(python="CPython", system="windows-x86_64", elsewhere=("blas",))
    with pytest.raises(NotApplicable, match="no snippet of the profile is for windows-x86_64"):
        judge(none, only={"blas": ("linux-*",)})


def test_an_expectation_of_no_snippet_is_told_and_no_snippet_at_all_is_not_inspected() -> None:
    assert judge(ran(), prints={"bals": "True"}, only={"blsa": ("linux-*",)}) == [
        NotInspected(sentence="the profile has no snippet bals, blsa")
    ]
    nothing = SnippetReport(python="CPython", system="linux-x86_64")
    assert only(NotInspected, snippet_fails(nothing, SnippetRequest()))


def test_long_snippets_are_noted_in_a_usual_run_and_never_pass_unrun() -> None:
    code = {**CODE, "long": Code("pass")}
    asked = SnippetRequest(code=code, long={"long": (Code("other"),)})
    usual = replace(ran(), long=("long",))
    assert list(snippet_fails(usual, asked)) == [
        Note(sentence="only a thorough run runs the snippets long")
    ]
    thorough = replace(ran(), untried=(("long", "no network"),))
    assert list(snippet_fails(thorough, asked)) == [
        NotInspected(sentence="snippet long: no network")
    ]
    with pytest.raises(NotApplicable, match="for a run without --thorough"):
        list(snippet_fails(replace(usual, runs=()), asked))
    unknown = SnippetRequest(code=CODE, long={"lnog": ()})
    assert list(snippet_fails(ran(), unknown)) == [
        NotInspected(sentence="the profile has no snippet lnog")
    ]
