"""A run as JUnit XML: a suite for each package, a case for each check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TextIO

from binary_checks.model import Entry, Outcome, PackageResult, Problem, RunResult
from binary_checks.reports.verdict_texts import explain_gap
from binary_checks.safe_text import one_line
from binary_checks.wording.problem_lines import accepted_line, finding_line, problem_lines

name = "junit"
of_facts = uses_facts = False

_TAGS = {
    Outcome.FAILED: "failure",
    Outcome.BROKEN: "error",
    Outcome.ERROR: "error",
    Outcome.ACCEPTED: "skipped",
    Outcome.NOT_INSPECTED: "skipped",
    Outcome.NOT_APPLICABLE: "skipped",
}
"""The element that marks a case; a case that passed has none."""


def write(run: RunResult, out: TextIO) -> None:
    """Write the document; complaints about the whole run are in a separate suite."""
    out.writelines(f"{line}\n" for line in _lines(run))


def _lines(run: RunResult) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield '<testsuites name="binary_checks">'
    for package in run.packages:
        yield from _suite(package)
    if run.complaints:
        count = len(run.complaints)
        yield f"<testsuite{_attributes(name='complaints', tests=count, failures=count)}>"
        for line in run.complaints:
            yield f"<testcase{_attributes(classname='binary_checks', name='complaint')}>"
            yield f"<failure{_attributes(message=line)}></failure>"
            yield "</testcase>"
        yield "</testsuite>"
    yield "</testsuites>"


def _suite(package: PackageResult) -> Iterator[str]:
    tags = [_TAGS.get(entry.outcome) for entry in package.entries]
    counts = _attributes(
        name=package.node,
        tests=len(tags),
        failures=tags.count("failure"),
        errors=tags.count("error"),
        skipped=tags.count("skipped"),
        time=f"{package.installing + sum(entry.seconds for entry in package.entries):.3f}",
    )
    yield f"<testsuite{counts}>"
    if package.verdict is Outcome.NOT_JUDGED:
        told = _attributes(name="verdict", value=f"{package.verdict.value}: {explain_gap(package)}")
        yield f"<properties><property{told}></property></properties>"
    for entry in package.entries:
        time = f"{entry.seconds:.3f}"
        yield f"<testcase{_attributes(classname=package.node, name=entry.item, time=time)}>"
        yield from _warnings(package, entry)
        yield from _outcome(package, entry)
        yield "</testcase>"
    yield "</testsuite>"


def _warnings(package: PackageResult, entry: Entry) -> Iterator[str]:
    if entry.warnings:
        yield "<properties>"
        for line in _iter_lines(package, entry, entry.warnings):
            yield f"<property{_attributes(name='warning', value=line)}></property>"
        yield "</properties>"


def _outcome(package: PackageResult, entry: Entry) -> Iterator[str]:
    tag = _TAGS.get(entry.outcome)
    if tag is not None:
        lines = list(_describe_case(package, entry))
        text = escape("\n".join(lines[1:]), quote=False)
        yield f"<{tag}{_attributes(message=lines[0])}>{text}</{tag}>"


def _describe_case(package: PackageResult, entry: Entry) -> Iterator[str]:
    """Yield the message of a case that did not pass, then further remarks."""
    problems = list(_iter_lines(package, entry, entry.problems))
    if entry.outcome is Outcome.FAILED:
        yield from problems[:1] or [one_line(entry.reason)]
        yield from problems
    else:
        yield one_line(f"{entry.outcome.value}: {entry.reason}".removesuffix(": "))
    for accepted in entry.accepted:
        yield accepted_line(entry.check, package.file_name, accepted)
    for gap in entry.not_inspected:
        line = finding_line(entry.check, package.file_name, gap)
        yield f"{Outcome.NOT_INSPECTED.value}: {line}"


def _iter_lines(package: PackageResult, entry: Entry, problems: Iterable[Problem]) -> Iterator[str]:
    return problem_lines(entry.check, package.file_name, problems)


def _attributes(**values: object) -> str:
    return "".join(f' {key}="{escape(one_line(str(value)))}"' for key, value in values.items())
