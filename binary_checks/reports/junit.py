"""A run as JUnit XML: a suite for each package, a case for each check.

A check that found only faults that another check shows does not fail a second time: its case is
skipped, and its message names the other check.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TextIO

from binary_checks.model import Entry, Level, Outcome, PackageResult, RunResult
from binary_checks.reports.faults import Fault, fold, unmarked_line
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
    shown = _Shown(package)
    tags = [shown.find_tag(entry) for entry in package.entries]
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
        attributes = _attributes(
            name="verdict", value=f"{package.verdict.value}: {explain_gap(package)}"
        )
        yield f"<properties><property{attributes}></property></properties>"
    for entry in package.entries:
        time = f"{entry.seconds:.3f}"
        yield f"<testcase{_attributes(classname=package.node, name=entry.item, time=time)}>"
        yield from _warnings(shown, entry)
        yield from _outcome(shown, entry)
        yield "</testcase>"
    yield "</testsuite>"


class _Shown:
    """The faults of a package by the case that shows them."""

    def __init__(self, package: PackageResult) -> None:
        self.name = package.shown_name
        self._faults: dict[tuple[str, Level], list[Fault]] = {}
        self._leaders: dict[str, Fault] = {}  # faults of other cases, by the case that follows
        for fault in fold(package.entries):
            self._faults.setdefault((fault.shown.item, fault.level), []).append(fault)
            for each in fault.folded:
                if each.check != fault.shown.check and each.group.level is Level.ERROR:
                    self._leaders.setdefault(each.item, fault)

    def lines(self, entry: Entry, level: Level) -> list[str]:
        """Return the lines of the faults that a case shows."""
        faults = self._faults.get((entry.item, level), ())
        return [unmarked_line(self.name, fault) for fault in faults]

    def find_leader(self, entry: Entry) -> Fault | None:
        """Return the fault of another case if the entry has no error besides this fault."""
        follows = entry.outcome is Outcome.FAILED and not self.lines(entry, Level.ERROR)
        return self._leaders.get(entry.item) if follows else None

    def find_tag(self, entry: Entry) -> str | None:
        """Return the element that marks the case, or None for a case that passed."""
        return "skipped" if self.find_leader(entry) else _TAGS.get(entry.outcome)


def _warnings(shown: _Shown, entry: Entry) -> Iterator[str]:
    if lines := shown.lines(entry, Level.WARNING):
        yield "<properties>"
        for line in lines:
            yield f"<property{_attributes(name='warning', value=line)}></property>"
        yield "</properties>"


def _outcome(shown: _Shown, entry: Entry) -> Iterator[str]:
    tag = shown.find_tag(entry)
    if tag is not None:
        lines = list(_describe_case(shown, entry))
        text = escape("\n".join(lines[1:]), quote=False)
        yield f"<{tag}{_attributes(message=lines[0])}>{text}</{tag}>"


def _describe_case(shown: _Shown, entry: Entry) -> Iterator[str]:
    """Yield the message of a case that did not pass, then further remarks."""
    problems = shown.lines(entry, Level.ERROR)
    if leader := shown.find_leader(entry):
        yield f"the same fault as {leader.shown.check}"
        yield from problem_lines(entry.check, shown.name, entry.problems)
    elif entry.outcome is Outcome.FAILED:
        yield from problems[:1] or [one_line(entry.reason)]
        yield from problems
    else:
        yield one_line(f"{entry.outcome.value}: {entry.reason}".removesuffix(": "))
    yield from accepted_lines(entry.check, shown.name, entry.accepted)
    for gap in entry.not_inspected:
        line = finding_line(entry.check, shown.name, gap)
        yield f"{Outcome.NOT_INSPECTED.value}: {line}"


def _attributes(**values: object) -> str:
    return "".join(f' {key}="{escape(one_line(str(value)))}"' for key, value in values.items())
