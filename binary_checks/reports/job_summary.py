"""A run as the summary of a GitHub job: a table of packages and families, then the problems.

GitHub accepts 1 MiB of Markdown from a step, and shows nothing of a larger summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from binary_checks.model import BROKE, Entry, Fitness, Outcome, PackageResult, RunResult
from binary_checks.reports import markdown
from binary_checks.reports.faults import FamilyFaults, count_accepted, count_by_family
from binary_checks.reports.verdict_texts import count_verdicts

name = "github-summary"
of_facts = uses_facts = False

LARGEST = 1 << 20  # bytes of a summary
_MARGIN = 200  # bytes for a line that says that parts of the report are omitted
_SIGNS = {Fitness.FIT: "✅ fit", Fitness.UNFIT: "❌ unfit", Fitness.NOT_JUDGED: "❔ not judged"}
_NONE, _ELSEWHERE = "\N{EN DASH}", "(❌)"
_KEY = (
    "✅ passed · ❌ problems · 💥 broke · 🟡 warnings · 🔵 accepted · ❔ not inspected · "
    f"{_ELSEWHERE} counted under another family · {_NONE} does not apply"
)
_LEFT_OUT = (
    "**The list ends here: GitHub accepts 1 MiB from a step. "
    "`--binary-report` writes the complete list.**"
)


def write(run: RunResult, out: TextIO) -> None:
    """Write as much of the summary as GitHub accepts."""
    out.writelines(fit_into(run, LARGEST))


def fit_into(run: RunResult, most: int) -> Iterator[str]:
    """Yield at most ``most`` bytes of the summary; the last line says if something is omitted."""
    left = most - _MARGIN
    for line in _lines(run):
        left -= len(line.encode()) + 1
        if left < 0:
            yield f"\n\n{run.program.name_options(_LEFT_OUT)}\n"
            return
        yield f"{line}\n"


def _lines(run: RunResult) -> Iterator[str]:
    yield f"## binary_checks: {count_verdicts(run.packages)}"
    yield ""
    yield from _table(run)
    yield from markdown.list_remarks(run)
    yield from markdown.list_details(run)


def _table(run: RunResult) -> Iterator[str]:
    """Yield a row for each package, with a column for each family that applies to a package."""
    applying = (e for _, e in run.entries() if e.outcome is not Outcome.NOT_APPLICABLE)
    families = sorted({entry.family for entry in applying})
    yield f"| package | verdict | {' | '.join(map(markdown.format_cell, families))} |"
    yield f"|---|---|{'---|' * len(families)}"
    for package in run.packages:
        faults = count_by_family(package.entries)
        signs = (_sign(_of_family(package, e), faults.get(e, FamilyFaults())) for e in families)
        name_of_it = markdown.format_cell(package.shown_name)
        yield f"| {name_of_it} | {_SIGNS[package.fitness]} | {' | '.join(signs)} |"
    yield ""
    yield f"<sub>{_KEY}</sub>"


def _of_family(package: PackageResult, family: str) -> list[Entry]:
    return [entry for entry in package.entries if entry.family == family]


def _sign(entries: Iterable[Entry], faults: FamilyFaults) -> str:
    """Return the most serious result of a family in a package, and how often it occurs."""
    entries = [entry for entry in entries if entry.outcome is not Outcome.NOT_APPLICABLE]
    counts = {
        "❌": faults.errors,
        "💥": sum(entry.outcome in BROKE for entry in entries),
        "🟡": faults.warnings,
        "🔵": count_accepted(entries),
    }
    texts = [_ELSEWHERE] if faults.elsewhere else []
    texts += [f"{sign} {number:,}" for sign, number in counts.items() if number]
    if any(entry.has_gap for entry in entries):
        texts.append("❔")
    return " ".join(texts) or ("✅" if entries else _NONE)
