"""The problems of a run as GitLab's code quality report, for merge requests.

GitLab reads part of Code Climate's format: description, check_name, fingerprint, severity and
location. A location needs a line number; packages have no lines, so the number is 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, TextIO

from binary_checks.model import BROKE, Level, RunResult
from binary_checks.reports.faults import fold
from binary_checks.reports.verdict_texts import list_unjudged
from binary_checks.safe_text import one_line

name = "gitlab"
of_facts = uses_facts = False

_Row = tuple[dict[str, Any], tuple[str, ...]]
_SEVERITIES = {Level.ERROR: "major", Level.WARNING: "minor"}


def write(run: RunResult, out: TextIO) -> None:
    """Write the report, one problem per line; equal problems give an equal report."""
    separator = "[\n"
    for row in _make_unique(_list_rows(run)):
        out.write(f"{separator}{json.dumps(row, sort_keys=True)}")
        separator = ",\n"
    out.write("[]\n" if separator == "[\n" else "\n]\n")


def _list_rows(run: RunResult) -> Iterator[_Row]:
    for complaint in run.complaints:
        yield _row("complaint", ".", complaint, "blocker")
    for package, line in list_unjudged(run):
        yield _row("complaint", package.node, line, "info")
    for package in run.packages:
        for entry in package.entries:
            if entry.outcome in BROKE:
                message = f"{entry.outcome.value}: {entry.reason}"
                yield _row(entry.check, package.node, message, "critical")
        for fault in fold(package.entries):
            group = fault.shown.group
            place = f"{group.first.path}: " if group.first.path else ""
            message = f"{place}{group.sentence}"
            severity = _SEVERITIES[fault.level]
            yield _row(fault.shown.check, package.node, message, severity, group.identity)


def _row(
    check: str, path: str, description: str, severity: str, identity: tuple[str, ...] = ()
) -> _Row:
    """Return a row, and the values that identify it; by default the description identifies it."""
    row = {
        "description": one_line(description),
        "check_name": one_line(check),
        "severity": severity,
        "location": {"path": one_line(path), "lines": {"begin": 1}},
    }
    return row, (check, path, *(identity or (description,)))


def _make_unique(rows: Iterator[_Row]) -> Iterator[dict[str, Any]]:
    """Add unique fingerprints: if several problems have the same one, GitLab shows only one."""
    seen: dict[str, int] = {}
    for row, identity in rows:
        text = json.dumps(identity)
        seen[text] = seen.get(text, 0) + 1
        digest = hashlib.sha256(f"{seen[text]} {text}".encode()).hexdigest()
        yield {**row, "fingerprint": digest}
