"""What the tests that a conda package carries did is judged, and what could not be run is said."""

from __future__ import annotations

from binary_checks.checks.conda import embedded_test_fails
from binary_checks.model import EmbeddedTestReport, Ending, NotInspected, Problem, SnippetRun, Step
from fixtures.values import only


def report(outcome: Ending, detail: str = "", **fields: bool) -> EmbeddedTestReport:
    step = Step(name="run_test.py", outcome=outcome, detail=detail, **fields)  # type: ignore[arg-type]
    runs = (SnippetRun(step=Step(name="run_test.sh")), SnippetRun(step=step))
    return EmbeddedTestReport(python="CPython 3.11.7", runs=runs)


def test_embedded_test_fails_fires_on_one_that_fails_alone() -> None:
    (found,) = embedded_test_fails(report(Ending.RAISED, "ValueError: no"))
    assert found == Problem(sentence="run_test.py raises ValueError: no")
    (found,) = embedded_test_fails(report(Ending.CRASHED, "SIGSEGV", finished=True))
    assert found == Problem(sentence="run_test.py is done, but its process then crashes: SIGSEGV")
    assert list(embedded_test_fails(report(Ending.OK))) == []


def test_one_that_needs_the_network_is_not_inspected() -> None:
    detail = "OSError: Temporary failure in name resolution"
    assert only(NotInspected, embedded_test_fails(report(Ending.RAISED, detail)))
    untried = EmbeddedTestReport(python="", untried=(("tests.yaml[0] r", "no"),))
    (found,) = embedded_test_fails(untried)
    assert found == NotInspected(sentence="tests.yaml[0] r: no")
