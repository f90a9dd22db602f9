"""SARIF carries the problems of a run, and is what its schema says."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jsonschema

from binary_checks.declaring import Check, find_checks
from binary_checks.model import Accepted, Entry, Level, Outcome, Problem, RunResult
from binary_checks.reports import sarif
from binary_checks.reports.explanation import abridge, find_page
from fixtures.runs import PROFILE, package_result
from fixtures.sarif import sarif_schema

CHECKS = find_checks()
NODE = "dist/demo 1.0.whl"
OPT = Problem(path="demo/a.so", sentence="search path /opt/lib")
WHOLE = Problem(sentence="no RECORD")


def entry(check: str = "a-check", outcome: Outcome = Outcome.FAILED, **found: Any) -> Entry:
    return Entry(check=check, family="linkage", outcome=outcome, **{"inspected": 1, **found})


def report(
    *entries: Entry, complaints: tuple[str, ...] = (), checks: Sequence[Check[Any]] = CHECKS[:1]
) -> dict[str, Any]:
    """The one run of a log that is valid."""
    run = RunResult(
        exit_code=1,
        profile=PROFILE,
        versions={"binary_checks": "1.2"},
        complaints=complaints,
        checks=tuple(map(abridge, checks)),
        packages=(package_result(NODE, *entries, uri="dist/demo%201.0.whl"),),
    )
    out = io.StringIO()
    sarif.write(run, out)
    log = json.loads(out.getvalue())
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    (found,) = log["runs"]
    return dict(found)


def test_the_schema_refuses_what_is_not_sarif() -> None:
    validator = jsonschema.Draft4Validator(sarif_schema())
    assert not validator.is_valid({"version": "2.1.0"})
    assert not validator.is_valid({"version": "2.1.0", "runs": [{"results": []}]})


def test_a_run_without_problems_is_valid_and_has_none() -> None:
    skipped = Entry(check="c", family="f", outcome=Outcome.NOT_INSPECTED, reason="r")
    for run in (report(), report(skipped)):
        assert run["results"] == []
        assert run["invocations"][0]["executionSuccessful"]


def test_every_check_is_a_rule_with_its_documentation() -> None:
    rules = report(checks=CHECKS)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [check.id for check in CHECKS]
    assert all(rule["help"]["text"] and rule["fullDescription"]["text"] for rule in rules)
    assert [rule["helpUri"] for rule in rules] == [find_page(check.id) for check in CHECKS]


def test_a_problem_is_a_result_with_the_line_that_the_terminal_shows_and_its_member() -> None:
    (result,) = report(entry(problems=(OPT,)))["results"]
    assert result["ruleId"] == "a-check"
    assert result["message"]["text"] == "a-check: demo 1.0.whl: demo/a.so: search path /opt/lib"
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "dist/demo%201.0.whl"
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "demo/a.so"
    (result,) = report(entry(problems=(WHOLE,)))["results"]
    assert "logicalLocations" not in result["locations"][0]


def test_an_accepted_problem_is_suppressed_with_its_reason() -> None:
    accepted = (Accepted(problem=OPT, reason="ours to fix"),)
    (result,) = report(entry(outcome=Outcome.ACCEPTED, accepted=accepted))["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "ours to fix"}]


def test_what_was_not_verified_is_a_notification() -> None:
    (invocation,) = report(complaints=("demo 1.0.whl: nothing was verified",))["invocations"]
    assert not invocation["executionSuccessful"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert "nothing was verified" in notification["message"]["text"]


def test_the_fingerprint_outlives_other_words_and_tells_facts_apart() -> None:
    one = replace(OPT, facts=("/opt/lib",))
    reworded = replace(one, sentence="looks in /opt/lib")
    other = replace(one, facts=("/opt/lib64",))
    first, second, *others = (
        report(entry(problems=(problem,)))["results"][0]["partialFingerprints"]["problem/v1"]
        for problem in (one, reworded, other, OPT, WHOLE)
    )
    assert first == second
    assert len({first, *others}) == 4


def test_a_warning_is_a_result_of_that_level() -> None:
    mild = Problem(sentence="unusual", level=Level.WARNING)
    results = report(entry(problems=(OPT,), warnings=(mild,)))["results"]
    assert [result["level"] for result in results] == ["error", "warning"]
