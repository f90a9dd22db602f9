"""Writes the problems of a run as SARIF 2.1.0, from the same entries as the summary."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from binary_checks import __version__
from binary_checks.declaring import Check
from binary_checks.errors import GatherError
from binary_checks.judging import Verdict, problem_line
from binary_checks.lines import one_line
from binary_checks.model import Problem
from binary_checks.reports.ledger import Entry, Ledger, Outcome

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write(
    path: Path,
    ledger: Ledger,
    checks: Iterable[Check[Any]],
    places: Mapping[str, str] | None = None,
) -> None:
    """Write the file; it is the same from run to run as long as the problems are.

    ``places`` are the packages' paths by their nodes. Raises GatherError when it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces(ledger, checks, places or {}))
    except (OSError, ValueError, RecursionError) as error:  # a path with a NUL, or without end
        reason = error.strerror if isinstance(error, OSError) else error
        raise GatherError(f"{path}: cannot be written: {reason}") from None


def pieces(
    ledger: Ledger, checks: Iterable[Check[Any]], places: Mapping[str, str]
) -> Iterator[str]:
    """The SARIF log, a problem at a time: rules from docstrings, results from the entries."""
    entries = sorted(ledger.entries, key=lambda entry: (entry.node, entry.check))
    broke = [entry for entry in entries if entry.outcome is Outcome.ERROR]
    troubles = [*ledger.complaints(), *(f"{e.node}::{e.check}: {e.reason}" for e in broke)]
    driver = {"name": "binary_checks", "version": __version__, "rules": [*map(_rule, checks)]}
    notifications = (
        *(_notification("error", line) for line in troubles),
        *(each for entry in entries for each in _notifications(entry)),
    )
    yield f'{{\n"$schema": {_dump(SCHEMA)},\n"version": "2.1.0",\n"runs": [\n{{\n'
    yield f'"tool": {_dump({"driver": driver}, indent=1)},\n"columnKind": "unicodeCodePoints",\n'
    yield from _rows("results", (row for entry in entries for row in _results(entry, places)))
    yield f',\n"invocations": [\n{{\n"executionSuccessful": {_dump(not troubles)},\n'
    yield from _rows("toolExecutionNotifications", notifications)
    yield "\n}\n]\n}\n]\n}\n"


def _rows(name: str, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """An array with a row a line."""
    yield f"{_dump(name)}: ["
    separator = "\n"
    for row in rows:
        yield f"{separator}{_dump(row)}"
        separator = ",\n"
    yield "\n]"


def _dump(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False)


def _notifications(entry: Entry) -> Iterator[dict[str, Any]]:
    """What a check could not inspect, and what is only worth knowing."""
    if entry.verdict is not None:
        for level, findings in (
            ("warning", entry.verdict.not_inspected),
            ("note", entry.verdict.notes),
        ):
            for finding in findings:
                line = problem_line(entry.verdict.check, entry.verdict.package, finding)
                yield _notification(level, line)


def _notification(level: str, line: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": one_line(line)}}


def _rule(check: Check[Any]) -> dict[str, Any]:
    documentation = check.documentation
    return {
        "id": check.id,
        "shortDescription": {"text": documentation.title},
        "fullDescription": {"text": documentation.why},
        "help": {"text": documentation.fix},
        "properties": {"tags": [check.family]},
    }


def _results(entry: Entry, places: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if entry.verdict is None:
        return
    location = {"artifactLocation": {"uri": spell_uri(places.get(entry.node, entry.node))}}
    for problem in entry.verdict.problems:
        yield _result(entry.verdict, problem, location)
    for accepted in entry.verdict.accepted:
        suppression = {"kind": "external", "justification": one_line(accepted.reason)}
        yield {
            **_result(entry.verdict, accepted.problem, location),
            "suppressions": [suppression],
        }


def spell_uri(path: str) -> str:
    """A relative reference (RFC 3986), whatever bytes the name of the file has."""
    return quote(os.fsencode(path))


def _result(verdict: Verdict, problem: Problem, place: dict[str, Any]) -> dict[str, Any]:
    line = problem_line(verdict.check, verdict.package, problem)
    location: dict[str, Any] = {"physicalLocation": place}
    if problem.path:
        name = one_line(problem.path)
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "module"}]
    return {
        "ruleId": verdict.check,
        "level": "error",
        "message": {"text": line},
        "locations": [location],
        "partialFingerprints": {"problem/v1": hashlib.sha256(line.encode()).hexdigest()},
    }
