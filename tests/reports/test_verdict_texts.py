"""The verdict on a package in words, and the count of a run's verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.model import (
    Accepted,
    CheckText,
    Entry,
    Fitness,
    Level,
    NotInspected,
    Outcome,
    PackageResult,
    Problem,
)
from binary_checks.reports.verdict_texts import (
    count_verdicts,
    describe_verdict,
    find_gaps,
    find_unrun,
)
from fixtures.runs import package_result

OPT = Problem(path="demo/a.so", sentence="search path /opt/lib")
MILD = Problem(path="demo/b.so", sentence="is unusual", level=Level.WARNING)
RUNS = CheckText(id="import-fails", family="runtime", title="", why="", fix="", runs_package=True)
ELSEWHERE = "the wheel is for cp311, the interpreter is CPython 3.13.0"


def entry(outcome: Outcome = Outcome.PASSED, **fields: Any) -> Entry:
    known = {"check": "c", "family": "linkage", "outcome": outcome, "inspected": 2}
    return Entry(**{**known, **fields})


def unrun(reason: str = ELSEWHERE) -> Entry:
    about = {"check": "import-fails", "family": "runtime", "inspected": 0, "reason": reason}
    return entry(Outcome.NOT_INSPECTED, **about)


def package(*entries: Entry, **known: Any) -> PackageResult:
    return package_result("demo-1.0.whl", *entries, **{"objects": 19, **known})


@pytest.mark.parametrize(
    ("judged", "parts"),
    [
        (
            package(entry(), ran_on="CPython 3.11.7"),
            ("fit", "1 check, 19 objects, ran on CPython 3.11"),
        ),
        (package(entry()), ("fit", "1 check, 19 objects, not run")),
        (package(entry(), unrun()), ("fit, but not run", "1 check, 19 objects")),
        (
            package(entry(Outcome.WARNED, warnings=(MILD,))),
            ("fit with 1 warning", "1 check, 19 objects, not run"),
        ),
        (
            package(entry(Outcome.ACCEPTED, accepted=(Accepted(problem=OPT, reason="7"),))),
            ("fit with 1 accepted problem", "1 check, 19 objects, not run"),
        ),
        (
            package(entry(Outcome.FAILED, problems=(OPT,), warnings=(MILD,)), objects=0),
            ("unfit", "1 problem, 1 warning", "1 check, not run"),
        ),
        (
            package(entry(), entry(Outcome.ERROR, check="d", reason="no network", inspected=0)),
            ("not judged: no network", "1 check, 19 objects, not run"),
        ),
        (
            package(entry(), objects=0, expected_objects=1),
            ("unfit: 0 object files, expected at least 1", "1 check, not run"),
        ),
        (package(), ("not judged: no check was selected for it", "0 checks, 19 objects, not run")),
    ],
)
def test_a_verdict_says_what_it_is_based_on(judged: PackageResult, parts: tuple[str, ...]) -> None:
    assert describe_verdict(judged, [RUNS]) == parts


def test_a_problem_weighs_more_than_something_that_broke_and_counts_once_for_many_files() -> None:
    judged = package(entry(Outcome.FAILED, problems=(OPT,)), entry(Outcome.ERROR, reason="no disk"))
    assert judged.fitness is Fitness.UNFIT
    many = tuple(Problem(path=f"{n}.so", sentence="needs libx.so.1") for n in range(77))
    assert describe_verdict(package(entry(Outcome.FAILED, problems=many)), ())[1] == "1 problem"


def test_what_could_not_run_is_one_gap_with_one_reason() -> None:
    blind = entry(not_inspected=(NotInspected(sentence="no light"),), check="d")
    judged = package(entry(), blind, unrun(), unrun())
    assert find_unrun(judged, [RUNS]) == ELSEWHERE
    assert list(find_gaps(judged, [RUNS])) == [blind]
    assert find_unrun(package(entry(), unrun("no GPU"), ran_on="CPython 3.11.7"), [RUNS]) == ""


def test_a_run_is_counted_by_its_verdicts() -> None:
    unfit = package(entry(Outcome.FAILED, problems=(OPT,)))
    assert count_verdicts([package(entry()), unfit, package(), package(entry())]) == (
        "4 packages: 2 fit, 1 unfit, 1 not judged"
    )
    assert count_verdicts([unfit]) == "1 package: 1 unfit"


def test_a_package_for_a_system_whose_loader_is_unknown_is_not_judged() -> None:
    blind = package(entry(), unjudged="the loader of iOS is not simulated")
    assert blind.fitness is Fitness.NOT_JUDGED
    assert describe_verdict(blind, ())[0] == "not judged: the loader of iOS is not simulated"
    assert package(entry(), entry(Outcome.NOT_INSPECTED, inspected=1)).fitness is Fitness.FIT
