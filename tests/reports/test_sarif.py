"""SARIF carries the problems of a run, and is what its schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from binary_checks.declaring import find_checks
from binary_checks.judging import Accepted, Verdict
from binary_checks.model import Problem
from binary_checks.reports import sarif
from binary_checks.reports.ledger import Entry, Ledger, Outcome
from fixtures.sarif import sarif_schema

CHECKS = find_checks()
NODE = "dist/demo 1.0.whl"
OPT = Problem(path="demo/a.so", sentence="search path /opt/lib")
WHOLE = Problem(sentence="no RECORD")


def entry(check: str = "a-check", outcome: Outcome = Outcome.FAILED, **found: Any) -> Entry:
    verdict = Verdict(check=check, family="linkage", package="demo 1.0.whl", inspected=1, **found)
    return Entry(node=NODE, check=check, family="linkage", outcome=outcome, verdict=verdict)


def report(*entries: Entry, packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """The one run of a log that is valid."""
    ledger = Ledger(packages=packages, entries=list(entries))
    log = json.loads("".join(sarif.pieces(ledger, CHECKS, {})))
    jsonschema.Draft4Validator(sarif_schema()).validate(log)
    (run,) = log["runs"]
    return dict(run)


def test_the_schema_refuses_what_is_not_sarif() -> None:
    validator = jsonschema.Draft4Validator(sarif_schema())
    assert not validator.is_valid({"version": "2.1.0"})
    assert not validator.is_valid({"version": "2.1.0", "runs": [{"results": []}]})


def test_a_run_without_problems_is_valid_and_has_none() -> None:
    run = report()
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"]


def test_every_check_is_a_rule_with_its_documentation() -> None:
    rules = report()["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [check.id for check in CHECKS]
    assert all(rule["help"]["text"] and rule["fullDescription"]["text"] for rule in rules)


def test_a_problem_is_a_result_with_the_line_that_the_terminal_shows() -> None:
    (result,) = report(entry(problems=(OPT,)))["results"]
    assert result["ruleId"] == "a-check"
    assert result["message"]["text"] == "a-check: demo 1.0.whl: demo/a.so: search path /opt/lib"
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "dist/demo%201.0.whl"
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "demo/a.so"


def test_a_problem_of_the_whole_package_names_no_member() -> None:
    (result,) = report(entry(problems=(WHOLE,)))["results"]
    assert "logicalLocations" not in result["locations"][0]


def test_an_accepted_problem_is_suppressed_with_its_reason() -> None:
    accepted = (Accepted(problem=OPT, reason="ours to fix"),)
    (result,) = report(entry(outcome=Outcome.ACCEPTED, accepted=accepted))["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "ours to fix"}]


def test_what_was_not_verified_is_a_notification() -> None:
    (invocation,) = report(packages=(NODE,))["invocations"]
    assert not invocation["executionSuccessful"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert "nothing was verified" in notification["message"]["text"]


def test_an_entry_without_a_verdict_has_no_results() -> None:
    skipped = Entry(node=NODE, check="c", family="f", outcome=Outcome.NOT_INSPECTED, reason="r")
    assert report(skipped)["results"] == []


def test_the_fingerprint_is_of_the_problem_alone() -> None:
    first, again, other = (
        report(entry(problems=(problem,)))["results"][0]["partialFingerprints"]
        for problem in (OPT, OPT, WHOLE)
    )
    assert first == again != other


def test_the_file_is_the_same_whatever_the_order_of_the_workers(tmp_path: Path) -> None:
    entries = [entry("b-check", problems=(OPT,)), entry(problems=(WHOLE, OPT))]
    texts = []
    for order in (entries, entries[::-1]):
        sarif.write(tmp_path / "log.sarif", Ledger(entries=list(order)), CHECKS)
        texts.append((tmp_path / "log.sarif").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["version"] == "2.1.0"
