"""A run as Markdown, for a build's summary, a comment or an issue: problems come first.

GitHub accepts 1 MiB of Markdown from a step, and shows nothing of a larger summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from binary_checks.model import BROKE, CheckText, Fitness, Level, Outcome, PackageResult, RunResult
from binary_checks.reports.explanation import as_markdown, list_fixes
from binary_checks.reports.faults import Fault, count_accepted, count_levels, fault_line, fold
from binary_checks.reports.verdict_texts import count_judged, count_verdicts
from binary_checks.safe_text import one_line
from binary_checks.wording.problem_lines import accepted_lines, summarise_gap

LARGEST_SUMMARY = 1 << 20  # bytes of a step's summary
_MARGIN = 200  # bytes for a line that says that parts of the report are omitted
_LEFT_OUT = (
    "**The list ends here: GitHub accepts 1 MiB from a step. "
    "`--binary-report` writes the complete list.**"
)
_BACKTICKS = re.compile("`+")


def write(run: RunResult, out: TextIO) -> None:
    """Write the page."""
    out.writelines(f"{line}\n" for line in _lines(run))


def write_job_summary(run: RunResult, out: TextIO, most: int = LARGEST_SUMMARY) -> None:
    """Write as much of the page as GitHub accepts; the last line says if something is omitted."""
    left = most - _MARGIN
    for line in _lines(run):
        left -= len(line.encode()) + 1
        if left < 0:
            out.write(f"\n\n{run.program.name_options(_LEFT_OUT)}\n")
            return
        out.write(f"{line}\n")


def _lines(run: RunResult) -> Iterator[str]:
    yield f"# binary_checks: {count_verdicts(run.packages)}"
    yield ""
    yield "| package | version | verdict | checks | problems | warnings | accepted |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(_row, run.packages)
    for line in (*run.complaints, *run.remarks):
        yield ""
        yield format_code(line)
    texts = {check.id: check for check in run.checks}
    for package in run.packages:
        yield from _details(package, texts)


def _row(package: PackageResult) -> str:
    levels = count_levels(package.entries)
    verdict = package.fitness.value
    marked = verdict if package.fitness is Fitness.FIT else f"**{verdict}**"
    numbers = (
        count_judged(package),
        levels[Level.ERROR],
        levels[Level.WARNING],
        count_accepted(package.entries),
    )
    cells = (
        format_cell(package.shown_name),
        format_cell(package.version),
        marked,
        *map(str, numbers),
    )
    return f"| {' | '.join(cells)} |"


def _details(package: PackageResult, texts: dict[str, CheckText]) -> Iterator[str]:
    """Yield each check's problems, why they matter and what to do, and then all other results."""
    sections = [*_problems(package, texts), *_others(package)]
    if sections:
        yield ""
        yield f"## {format_code(package.shown_name)}"
        yield from sections


def _problems(package: PackageResult, texts: dict[str, CheckText]) -> Iterator[str]:
    by_check: dict[str, list[Fault]] = {}
    for fault in fold(package.entries):
        by_check.setdefault(fault.shown.check, []).append(fault)
    for check, faults in by_check.items():
        yield ""
        yield f"### {format_code(check)}"
        yield ""
        for fault in faults:  # as code, so that links and mentions in the text have no effect
            yield f"    {fault_line(package.shown_name, fault)}"
            if seen := fault.seen():
                yield f"      users see: {seen}"
        yield from _advise(texts.get(check), faults)


def _advise(check: CheckText | None, faults: Iterable[Fault]) -> Iterator[str]:
    fixes = list_fixes(check, (p for fault in faults for p in fault.shown.group.problems))
    for heading, text in (("Why", check.why if check else ""), *(("Fix", fix) for fix in fixes)):
        if text:
            yield ""
            yield f"**{heading}:** {as_markdown(' '.join(text.split()))}"


def _others(package: PackageResult) -> Iterator[str]:
    lines: list[str] = []
    for entry in package.entries:
        lines += accepted_lines(entry.check, "", entry.accepted)
        if entry.outcome in BROKE:
            lines.append(f"{entry.outcome.value}: {entry.check}: {entry.reason}")
        elif entry.has_gap:
            reason = summarise_gap(entry.not_inspected) or entry.reason
            lines.append(f"{Outcome.NOT_INSPECTED.value}: {entry.check}: {reason}")
    if lines:
        yield ""
        yield from (f"- {format_code(line)}" for line in lines)


def format_code(text: str) -> str:
    """Return a text as inline code, so that no text from a package becomes markup or a mention."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    padding = " " if text[:1] in ("", "`", " ") or text[-1:] in ("`", " ") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def format_cell(text: str) -> str:
    """Return a text as code in a table's cell."""
    return format_code(text).replace("|", "\\|") if text else ""
