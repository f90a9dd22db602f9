"""One fault is one line: files of one check are grouped, checks of one cause folded."""

from __future__ import annotations

import pytest

from binary_checks.model import (
    CheckResult,
    Level,
    Outcome,
    PackageResult,
    Problem,
    Provenance,
    sum_up,
)
from binary_checks.reports.faults import fault_line, fold, shell_path
from binary_checks.wording.problem_lines import group_problems, problem_lines

LOST = "library libdep.so.1"


def lacks(path: str, **given: object) -> Problem:
    return Problem(path=path, sentence="needs libdep.so.1", cause=LOST, **given)


def said(check: str, *problems: Problem) -> CheckResult:
    errors = tuple(each for each in problems if each.level is Level.ERROR)
    warnings = tuple(each for each in problems if each.level is Level.WARNING)
    return CheckResult(
        check=check,
        family="linkage",
        outcome=Outcome.FAILED,
        inspected=1,
        problems=errors,
        warnings=warnings,
    )


def test_a_library_that_77_objects_lack_is_one_line_with_a_count_and_the_first_three():
    problems = [lacks(f"demo/_{number:02}.so") for number in range(77)]

    assert list(problem_lines("missing-library", "demo.whl", problems)) == [
        "missing-library: demo.whl: demo/_00.so: needs libdep.so.1 "
        "(and 76 more files: demo/_01.so, demo/_02.so, ...)"
    ]


def test_problems_without_a_cause_are_grouped_where_their_sentences_are_equal():
    same = [Problem(path=path, sentence="is litter") for path in ("a.pyc", "b.pyc")]
    other = Problem(path="c.pyc", sentence="is stale")

    groups = group_problems([*same, other])

    assert [group.paths for group in groups] == [("a.pyc", "b.pyc"), ("c.pyc",)]


def test_a_warning_is_not_grouped_with_an_error():
    mild = lacks("tool", level=Level.WARNING)

    assert len(group_problems([lacks("a.so"), mild])) == 2


def test_a_consequence_is_folded_under_the_check_that_says_it_best():
    unresolved = Problem(path="a.so", sentence="has 3 ...", cause=LOST, consequence=True)

    (fault,) = fold([said("dangling-symbol", unresolved), said("missing-library", lacks("a.so"))])
    (alone,) = fold([said("dangling-symbol", unresolved)])

    assert fault.shown.check == "missing-library"
    assert fault.also() == "dangling-symbol"
    assert (alone.shown.check, alone.folded) == ("dangling-symbol", ())


def test_of_two_consequences_the_one_with_a_command_is_shown():
    refused = Problem(path="a.so", sentence="is refused", cause=LOST, consequence=True)
    stranded = lacks("a.so", consequence=True, command="patchelf --add-rpath '$ORIGIN' {path}")

    (fault,) = fold([said("extension-fails", refused), said("load-order", stranded)])

    assert fault.shown.check == "load-order"


def test_an_error_is_never_folded_under_a_warning():
    mild = lacks("a.so", level=Level.WARNING)
    unresolved = Problem(path="a.so", sentence="has 3 ...", cause=LOST, consequence=True)

    (fault,) = fold([said("missing-library", mild), said("undefined-symbol", unresolved)])

    assert fault.shown.check == "undefined-symbol"
    assert fault.level is Level.ERROR


def test_different_causes_are_different_faults_and_errors_come_first():
    litter = Problem(path="x.pyc", sentence="is litter", level=Level.WARNING)

    faults = fold([said("bytecode-in-wheel", litter), said("missing-library", lacks("a.so"))])

    assert [fault.shown.check for fault in faults] == ["missing-library", "bytecode-in-wheel"]


def test_files_of_what_is_folded_are_counted():
    follow = [Problem(path=f"{n}.so", sentence="...", cause=LOST, consequence=True) for n in "abc"]

    (fault,) = fold([said("missing-library", lacks("a.so")), said("undefined-symbol", *follow)])

    assert fault_line("p.whl", fault) == (
        "missing-library: p.whl: a.so: needs libdep.so.1 [also: undefined-symbol (3 files)]"
    )


def test_a_milder_group_of_the_same_check_is_folded_without_a_word():
    mild = lacks("tool", level=Level.WARNING)

    (fault,) = fold([said("missing-library", lacks("a.so"), mild)])

    assert len(fault.folded) == 1
    assert fault.also() == ""


@pytest.mark.parametrize(
    ("uri", "url", "path"),
    [
        ("dist/a%20b.whl", "", "dist/a b.whl"),
        ("file:/srv/a.whl", "file:///srv/a%2Bb.whl", "/srv/a+b.whl"),
        ("https://example.org/a.whl", "https://example.org/a.whl", "a.whl"),
    ],
)
def test_a_command_names_a_package_as_a_tool_opens_it(uri: str, url: str, path: str) -> None:
    origin = Provenance(kind="url", url=url) if url else None
    package = PackageResult(
        node="a",
        file_name="a.whl",
        uri=uri,
        provenance=origin,
        verdict=sum_up([Outcome.PASSED]),
        entries=(),
    )
    assert shell_path(package) == path
