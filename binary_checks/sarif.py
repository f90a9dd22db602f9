"""Writes the problems of a run as SARIF 2.1.0, from the same entries as the summary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from binary_checks import __version__
from binary_checks.check import Check
from binary_checks.errors import GatherError
from binary_checks.ledger import Entry, Ledger, Outcome
from binary_checks.model import Problem
from binary_checks.verdict import problem_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write(path: Path, ledger: Ledger, checks: Iterable[Check[Any]]) -> None:
    """Write the file; it is the same from run to run as long as the problems are.

    Raises GatherError when it cannot be written.
    """
    text = json.dumps(report(ledger, checks), indent=1, sort_keys=True, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise GatherError(f"{path}: cannot be written: {error.strerror}") from None


def report(ledger: Ledger, checks: Iterable[Check[Any]]) -> dict[str, Any]:
    """The SARIF log: rules from the checks' docstrings, results from the entries."""
    entries = sorted(ledger.entries, key=lambda entry: (entry.node, entry.check))
    broke = [entry for entry in entries if entry.outcome is Outcome.ERROR]
    troubles = [*ledger.complaints(), *(f"{e.node}::{e.check}: {e.reason}" for e in broke)]
    driver = {
        "name": "binary_checks",
        "version": __version__,
        "rules": [_rule(check) for check in checks],
    }
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [result for entry in entries for result in _results(entry)],
                "invocations": [
                    {
                        "executionSuccessful": not troubles,
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": line}} for line in troubles
                        ],
                    }
                ],
            }
        ],
    }


def _rule(check: Check[Any]) -> dict[str, Any]:
    documentation = check.documentation
    return {
        "id": check.id,
        "shortDescription": {"text": documentation.title},
        "fullDescription": {"text": documentation.why},
        "help": {"text": documentation.fix},
        "properties": {"tags": [check.family]},
    }


def _results(entry: Entry) -> Iterable[dict[str, Any]]:
    if entry.verdict is None:
        return
    for problem in entry.verdict.problems:
        yield _result(entry, problem)
    for accepted in entry.verdict.accepted:
        suppression = {"kind": "external", "justification": accepted.reason}
        yield {**_result(entry, accepted.problem), "suppressions": [suppression]}


def _result(entry: Entry, problem: Problem) -> dict[str, Any]:
    assert entry.verdict is not None
    line = problem_line(entry.verdict.check, entry.verdict.package, problem)
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(entry.node)}}
    }
    if problem.path:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.path, "kind": "module"}]
    return {
        "ruleId": entry.verdict.check,
        "level": "error",
        "message": {"text": line},
        "locations": [location],
        "partialFingerprints": {"problem/v1": hashlib.sha256(line.encode()).hexdigest()},
    }
