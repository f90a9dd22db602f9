"""A run as JUnit XML: a suite for each package, a case for each check.

A check that found only faults that another check shows does not fail a second time: its case is
skipped, and its message names the other check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TextIO
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from binary_checks.model import Entry, Level, Outcome, PackageResult, RunResult
from binary_checks.reports.faults import fold, unmarked_line
from binary_checks.reports.verdict_texts import explain_gap
from binary_checks.safe_text import one_line
from binary_checks.wording.problem_lines import accepted_lines, finding_line, problem_lines

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
    root = Element("testsuites", name="binary_checks")
    root.extend(map(_make_suite, run.packages))
    if run.complaints:
        number = str(len(run.complaints))
        suite = SubElement(root, "testsuite", name="complaints", tests=number, failures=number)
        for line in run.complaints:
            case = SubElement(suite, "testcase", classname="binary_checks", name="complaint")
            SubElement(case, "failure", message=one_line(line))
    indent(root, space="")
    out.write(f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n')


def _make_suite(package: PackageResult) -> Element:
    shown: dict[tuple[str, Level], list[str]] = {}  # lines of faults by the case that shows them
    leaders: dict[str, str] = {}  # the check that shows the fault of a case
    for fault in fold(package.entries):
        line = unmarked_line(package.shown_name, fault)
        shown.setdefault((fault.shown.item, fault.level), []).append(line)
        for each in fault.folded:
            if each.check != fault.shown.check and each.group.level is Level.ERROR:
                leaders.setdefault(each.item, fault.shown.check)
    node = one_line(package.node)
    suite = Element("testsuite", name=node, tests=str(len(package.entries)))
    if package.verdict is Outcome.NOT_JUDGED:
        verdict = one_line(f"{package.verdict.value}: {explain_gap(package)}")
        properties = SubElement(suite, "properties")
        SubElement(properties, "property", name="verdict", value=verdict)
    marks = Counter[str]()
    for entry in package.entries:
        name, time = one_line(entry.item), f"{entry.seconds:.3f}"
        case = SubElement(suite, "testcase", classname=node, name=name, time=time)
        if warnings := shown.get((entry.item, Level.WARNING)):
            properties = SubElement(case, "properties")
            for line in warnings:
                SubElement(properties, "property", name="warning", value=line)
        problems = shown.get((entry.item, Level.ERROR), [])
        follows = entry.outcome is Outcome.FAILED and not problems
        leader = leaders.get(entry.item, "") if follows else ""
        tag = "skipped" if leader else _TAGS.get(entry.outcome)
        if tag:
            marks[tag] += 1
            message, *texts = _describe_case(package.shown_name, entry, problems, leader)
            SubElement(case, tag, message=one_line(message)).text = "\n".join(texts)
    seconds = package.installing + sum(entry.seconds for entry in package.entries)
    numbers = {"failures": marks["failure"], "errors": marks["error"], "skipped": marks["skipped"]}
    suite.attrib.update(
        {key: str(number) for key, number in numbers.items()}, time=f"{seconds:.3f}"
    )
    return suite


def _describe_case(name: str, entry: Entry, problems: list[str], leader: str) -> Iterator[str]:
    """Yield the message of a case that did not pass, then further remarks."""
    if leader:
        yield f"the same fault as {leader}"
        yield from problem_lines(entry.check, name, entry.problems)
    elif entry.outcome is Outcome.FAILED:
        yield from problems[:1] or [one_line(entry.reason)]
        yield from problems
    else:
        yield one_line(f"{entry.outcome.value}: {entry.reason}".removesuffix(": "))
    yield from accepted_lines(entry.check, name, entry.accepted)
    for gap in entry.not_inspected:
        yield f"{Outcome.NOT_INSPECTED.value}: {finding_line(entry.check, name, gap)}"
