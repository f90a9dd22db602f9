"""The problems of a run as SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from binary_checks.model import BROKE, CheckText, PackageIdentity, RunResult
from binary_checks.reports.explanation import find_page
from binary_checks.reports.faults import fold, unmarked_line
from binary_checks.reports.verdict_texts import list_unjudged
from binary_checks.safe_text import one_line
from binary_checks.wording.problem_lines import (
    ProblemGroup,
    finding_line,
    group_line,
)

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write(run: RunResult, out: TextIO) -> None:
    """Write the log; equal problems give an equal log.

    Rules are made from the checks' docstrings, results from the entries.
    """
    troubles = [*run.complaints]
    for package, entry in run.entries():
        if entry.outcome in BROKE:
            troubles.append(f"{package.node}::{entry.check}: {entry.reason}")
    notifications = [
        *(_notification("error", line) for line in troubles),
        *(_notification("warning", line) for _, line in list_unjudged(run)),
        *(
            _notification(level, finding_line(entry.check, package.shown_name, finding))
            for package, entry in run.entries()
            for level, findings in (("warning", entry.not_inspected), ("note", entry.notes))
            for finding in findings
        ),
    ]
    driver = {
        "name": "binary_checks",
        "version": run.versions.get("binary_checks", ""),
        "rules": [*map(_rule, run.checks)],
    }
    log = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [*_make_unique(_results(run))],
        "invocations": [
            {"executionSuccessful": not troubles, "toolExecutionNotifications": notifications}
        ],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [log]}
    json.dump(document, out, indent=1, sort_keys=True)
    out.write("\n")


def _notification(level: str, line: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": one_line(line)}}


def _rule(check: CheckText) -> dict[str, Any]:
    page = find_page(check.id)
    return {
        "id": check.id,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why},
        "help": {"text": check.fix},
        "defaultConfiguration": {"level": check.level.value},
        **({"helpUri": page} if page else {}),
        "properties": {"tags": [check.family]},
    }


_Result = tuple[dict[str, Any], tuple[str, ...]]
"""A result without its fingerprint, and the values that identify its problem in every build."""


def _results(run: RunResult) -> Iterator[_Result]:
    """Yield a result for each fault; results for accepted problems have the reason."""
    for package in run.packages:
        for fault in fold(package.entries):
            row, identity = _result(package, fault.shown.check, fault.shown.group)
            line = unmarked_line(package.shown_name, fault)
            yield {**row, "message": {"text": line}}, identity
        for entry in package.entries:
            for accepted in entry.accepted:
                alone = ProblemGroup(problems=(accepted.problem,))
                suppression = {"kind": "external", "justification": one_line(accepted.reason)}
                row, identity = _result(package, entry.check, alone)
                yield {**row, "suppressions": [suppression]}, identity


def _result(package: PackageIdentity, check: str, group: ProblemGroup) -> _Result:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": package.uri}}}
    if paths := [one_line(path) for path in group.paths if path]:
        location["logicalLocations"] = [
            {"fullyQualifiedName": path, "kind": "module"} for path in paths
        ]
    row = {
        "ruleId": check,
        "level": group.level.value,
        "message": {"text": group_line(check, package.shown_name, group)},
        "locations": [location],
    }
    return row, (check, package.shown_name, *group.identity)


def _make_unique(results: Iterable[_Result]) -> Iterator[dict[str, Any]]:
    """Add fingerprints, the same for all builds with the same file name.

    A viewer merges results with equal fingerprints, so equal ones are numbered.
    """
    seen = Counter[str]()
    for row, identity in results:
        text = json.dumps(identity)
        seen[text] += 1
        numbered = text if seen[text] == 1 else f"{seen[text]} {text}"
        digest = hashlib.sha256(numbered.encode()).hexdigest()
        yield {**row, "partialFingerprints": {"problem/v1": digest}}
