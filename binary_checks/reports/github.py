"""A run as commands for GitHub's runner, which annotate a commit and its pull request.

Syntax and escapes are those in the runner's ActionCommand.cs. GitHub shows 10 errors and 10
warnings of a step; all others are in the job summary.
"""

from __future__ import annotations

from itertools import islice
from typing import TextIO

from binary_checks.model import BROKE, CheckText, Level, PackageIdentity, PackageResult, RunResult
from binary_checks.reports.explanation import advice
from binary_checks.reports.faults import Fault, fold
from binary_checks.reports.verdict_texts import list_unjudged
from binary_checks.safe_text import cut, one_line

MOST_SHOWN = 10
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}
_TOOL = "binary_checks"


def write(run: RunResult, out: TextIO) -> None:
    """Write one command per line: errors, then warnings, then the number of those left out."""
    texts = {check.id: check for check in run.checks}
    found = [(package, fault) for package in run.packages for fault in fold(package.entries)]
    broken: dict[str, tuple[PackageIdentity, str]] = {}  # each reason once
    for package, entry in run.entries():
        if entry.outcome in BROKE:
            broken.setdefault(entry.reason, (package, entry.check))
    errors = [
        *(_command("error", line, title=_TOOL) for line in run.complaints),
        *(
            _command("error", reason, file=about.node, title=f"{check}: {about.shown_name}")
            for reason, (about, check) in broken.items()
        ),
        *(_annotate(*each, texts) for each in found if each[1].level is Level.ERROR),
    ]
    warnings = [
        *(_command("warning", line, title=_TOOL) for _, line in list_unjudged(run)),
        *(_annotate(*each, texts) for each in found if each[1].level is not Level.ERROR),
    ]
    for commands in (errors, warnings):
        out.writelines(islice(commands, MOST_SHOWN))
    if hidden := len(errors[MOST_SHOWN:]) + len(warnings[MOST_SHOWN:]):
        out.write(_command("notice", f"{hidden:,} more are in the job summary", title=_TOOL))


def _annotate(package: PackageResult, fault: Fault, texts: dict[str, CheckText]) -> str:
    """Return an annotation: the file and its fault, why it matters, and what to do."""
    check, group = fault.shown.check, fault.shown.group
    place = f"{group.first.path}: " if group.first.path else ""
    also = f" [also: {others}]" if (others := fault.also()) else ""
    known = texts.get(check)
    seen = [f"users see: {text}"] if (text := fault.seen()) else []
    lines = [
        f"{place}{group.sentence}{also}",
        *seen,
        *(advice(known, group.problems) if known else ()),
    ]
    title = f"{check}: {package.shown_name}"
    level = "error" if fault.level is Level.ERROR else "warning"
    return _command(level, *lines, file=package.node, title=title)


def _command(command: str, *lines: str, **properties: str) -> str:
    """Return a command, escaped so that no text from a package can end it."""
    stated = ",".join(
        f"{key}={_escape(cut(value), _PROPERTY)}" for key, value in properties.items()
    )
    message = "\n".join(one_line(cut(line.strip())) for line in lines)
    return f"::{command} {stated}::{_escape(message, _DATA, one=False)}\n"


def _escape(text: str, escapes: dict[str, str], *, one: bool = True) -> str:
    spelled = one_line(text) if one else text
    return "".join(escapes.get(char, char) for char in spelled)
