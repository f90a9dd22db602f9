"""Verdicts on packages in words: fit, unfit or not judged, and the basis of each verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from binary_checks.model import (
    JUDGED,
    CheckText,
    Entry,
    Fitness,
    Level,
    Outcome,
    PackageResult,
    RunResult,
)
from binary_checks.reports.faults import count_accepted, count_levels
from binary_checks.safe_text import one_line

_NOT_RUN = "not run"
_PATCH = re.compile(r"(\d+\.\d+)\.\d+\S*")


def describe_verdict(package: PackageResult, checks: Iterable[CheckText]) -> tuple[str, ...]:
    """Return a verdict and its basis: ("fit", "54 checks, 19 objects, not run")."""
    fitness, basis, levels = package.fitness, _format_basis(package), count_levels(package.entries)
    numbers = {
        "problem": levels[Level.ERROR],
        "warning": levels[Level.WARNING],
        "accepted problem": count_accepted(package.entries),
    }
    found = [count(number, word) for word, number in numbers.items() if number]
    counts = (", ".join(found),) if found else ()
    if fitness is Fitness.UNFIT:
        objects = count(package.objects or 0, "object file")
        few = f": {objects}, expected at least {package.expected_objects:,}"
        return (f"{fitness.value}{few * package.lacks_objects}", *counts, basis)
    if fitness is Fitness.NOT_JUDGED:
        return (f"{fitness.value}: {explain_gap(package)}", *counts, basis)
    if find_unrun(package, checks):
        return (f"{fitness.value}, but not run", *counts, basis.removesuffix(f", {_NOT_RUN}"))
    return (" with ".join((fitness.value, *counts)), basis)


def count(number: int, word: str) -> str:
    """Return a number with its noun: "1 package", "2 packages"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _format_basis(package: PackageResult) -> str:
    """Return how many checks judged how many objects, and where the package ran."""
    parts = [count(count_judged(package), "check")]
    if package.objects:
        parts.append(count(package.objects, "object"))
    if package.parts:
        return ", ".join((*parts, count(package.parts, "package")))
    python = _PATCH.sub(r"\1", package.ran_on)
    parts.append(f"ran on {python}" if python else _NOT_RUN)
    return ", ".join(parts)


def count_judged(package: PackageResult) -> int:
    """Return how many checks reached a verdict or judged a part of the package."""
    return sum(entry.outcome in JUDGED or entry.inspected > 0 for entry in package.entries)


def explain_gap(package: PackageResult) -> str:
    """Return why the package could not be judged, in one line."""
    for outcome in (Outcome.BROKEN, Outcome.ERROR):
        if reasons := [entry.reason for entry in package.entries if entry.outcome is outcome]:
            return most_common(reasons)
    if package.stopped:
        return one_line(package.stopped)
    if reason := package.unjudged or package.unrun:
        return reason
    return most_common(entry.reason for entry in package.entries) or "no check was selected for it"


def list_unjudged(run: RunResult) -> Iterator[tuple[PackageResult, str]]:
    """Yield each package that was not judged, with the reason, unless a complaint states it."""
    for package in run.packages:
        name = one_line(package.shown_name)
        complained = any(line.startswith(f"{name}: ") for line in run.complaints)
        if package.verdict is Outcome.NOT_JUDGED and not complained:
            yield package, f"{name}: {package.verdict.value}: {explain_gap(package)}"


def find_unrun(package: PackageResult, checks: Iterable[CheckText]) -> str:
    """Return why a package was not run although this was requested, or ""."""
    running = {check.id for check in checks if check.runs_package}
    entries = [entry for entry in package.entries if entry.check in running]
    gaps = [entry.reason for entry in entries if entry.outcome is Outcome.NOT_INSPECTED]
    return "" if package.ran_on else most_common(gaps)


def find_gaps(package: PackageResult, checks: Iterable[CheckText]) -> Iterator[Entry]:
    """Yield the entries with gaps.

    If the package did not run, leave out the checks that run it: `find_unrun` reports this once.
    """
    running = {check.id for check in checks if check.runs_package}
    for entry in package.entries:
        if entry.has_gap and (package.ran_on or entry.check not in running):
            yield entry


def most_common(reasons: Iterable[str]) -> str:
    """Return the most common reason, or "" if there is none."""
    counted = Counter(one_line(reason) for reason in reasons if reason)
    return counted.most_common(1)[0][0] if counted else ""


def count_verdicts(packages: Iterable[PackageResult]) -> str:
    """Return the counts of a run's verdicts.

    "17 packages: 15 fit, 1 unfit, 1 not judged; release: unfit".
    """
    packages = tuple(packages)
    found = Counter(package.fitness for package in packages if not package.parts)
    counts = ", ".join(f"{found[each]:,} {each.value}" for each in Fitness if found[each])
    together = (f"; {each.file_name}: {each.fitness.value}" for each in packages if each.parts)
    return f"{count(found.total(), 'package')}: {counts}{''.join(together)}"
