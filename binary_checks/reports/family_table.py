"""A table of each family's checks in a run, followed by all other results except problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from binary_checks.model import (
    GAPS,
    GOOD_OUTCOMES,
    Entry,
    Note,
    Outcome,
    PackageIdentity,
    PackageResult,
    RunResult,
)
from binary_checks.reports.faults import count_accepted, count_by_family
from binary_checks.safe_text import LONGEST, MOST, MOST_OF_A_RUN, cut, one_line
from binary_checks.wording.problem_lines import (
    accepted_lines,
    finding_line,
    problem_lines,
    summarise_gap,
)
from binary_checks.wording.sentences import name_first

_HEADINGS = (
    *("family", "checks", "inspected", "problems", "accepted"),
    *("not applicable", "not inspected"),
)

_NAMES = re.compile(r"\S*[\d./_@]\S*")
"""The words in which similar notes differ: paths, file names, versions, numbers."""
_WORDS = {Outcome.BROKEN: Outcome.ERROR.value}  # users see both outcomes as errors
_WITHOUT_VERDICT = GAPS | {Outcome.NOT_APPLICABLE}
_Reasons = dict[tuple[str, str], list[tuple[PackageIdentity, Entry]]]


def summarise(run: RunResult) -> Iterator[str]:
    """Yield a row for each family, then warnings, reasons for missing inspections, and notes."""
    if any(result.entries for result in run.packages):
        yield from _table(run)
    yield from _bounded("warning", run)
    yield from _bounded("accepted", run)
    yield from _reasons(run)
    yield from _bounded("note", run)


def _table(run: RunResult) -> Iterator[str]:
    rows: dict[str, Counter[str]] = {}
    for package in run.packages:
        for family, faults in count_by_family(package.entries).items():
            rows.setdefault(family, Counter()).update(
                problems=faults.errors, warnings=faults.warnings
            )
        for family in {entry.family for entry in package.entries}:
            ours = [entry for entry in package.entries if entry.family == family]
            rows.setdefault(family, Counter()).update(
                {
                    "checks": sum(1 for entry in ours if entry.inspected),
                    # all checks of a family inspect the same objects
                    "inspected": max(entry.inspected for entry in ours),
                    "accepted": count_accepted(ours),
                    "not applicable": sum(e.outcome is Outcome.NOT_APPLICABLE for e in ours),
                    "not inspected": sum(entry.has_gap for entry in ours),
                }
            )
    warned = any(row["warnings"] for row in rows.values())
    headings = (*_HEADINGS, *(("warnings",) if warned else ()))
    lines = [
        headings,
        *(
            (family, *(str(numbers[heading] or "-") for heading in headings[1:]))
            for family, numbers in sorted(rows.items())
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for family, *numbers in lines:
        cells = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join((family.ljust(widths[0]), *cells))


def _reasons(run: RunResult) -> Iterator[str]:
    """Yield the reasons why something was not judged.

    A reason why a check does not apply is not a gap; each family has one line for all such reasons.
    """
    gaps: list[str] = []
    shared: dict[tuple[str, str], list[str]] = {}
    for (outcome, reason), ours in sorted(_by_reason(run).items()):
        whose, families = _whose(run, ours), ", ".join(sorted({e.family for _, e in ours}))
        if outcome == Outcome.NOT_APPLICABLE.value:
            shared.setdefault((whose, families), []).append(reason)
        else:
            gaps.append(f"{outcome}: {whose}{reason} ({families})")
    for (whose, families), reasons in shared.items():
        yield f"{Outcome.NOT_APPLICABLE.value}: {whose}{'; '.join(reasons)} ({families})"
    yield from gaps[:MOST_OF_A_RUN]
    if more := len(gaps[MOST_OF_A_RUN:]):
        yield f"{Outcome.NOT_INSPECTED.value}: and {more:,} more reasons"


def _by_reason(run: RunResult) -> _Reasons:
    values: _Reasons = {}
    for package, entry in run.entries():
        if entry.outcome in _WITHOUT_VERDICT:
            key = (_WORDS.get(entry.outcome, entry.outcome.value), entry.reason)
            values.setdefault(key, []).append((package, entry))
        elif entry.has_gap:
            key = (Outcome.NOT_INSPECTED.value, summarise_gap(entry.not_inspected))
            values.setdefault(key, []).append((package, entry))
    return values


def _whose(run: RunResult, ours: Iterable[tuple[PackageIdentity, Entry]]) -> str:
    """Return the package that a line describes, if the run has several packages."""
    packages = sorted({package.node: package for package, _ in ours}.items())
    if len(run.packages) < 2:
        return ""
    if len(packages) > 1:
        return f"{len(packages)} packages: "
    return f"{one_line(packages[0][1].shown_name)}: "


def _bounded(word: str, run: RunResult) -> Iterator[str]:
    """Yield warnings, accepted problems or notes, up to the limits for each check and the run."""
    lines: set[str] = set()
    omitted = 0
    for package, entry in run.entries():
        about = f"{word}: {entry.check}"
        found = list(problem_lines(about, package.shown_name, entry.warnings))
        if word == "accepted":
            found = list(accepted_lines(entry.check, package.shown_name, entry.accepted))
        if word == "note":
            found = list(_fold_notes(package.shown_name, entry.notes))
        omitted += len(found[MOST:])
        lines.update(found[:MOST])
    omitted += len(lines) - len(lines := {*sorted(lines)[:MOST_OF_A_RUN]})
    yield from map(cut, sorted(lines))
    if omitted:
        where = run.program.name_options("--binary-report sarif:FILE")
        yield f"{word}: and {omitted:,} more, in the report ({where})"


def _fold_notes(package_file_name: str, notes: Iterable[Note]) -> Iterator[str]:
    """Yield the first note of each kind, with the number of similar notes.

    Similar notes differ only in names. One wheel has 298 notes that each name a library which may
    be opened.
    """
    kinds: dict[str, list[Note]] = {}
    for note in notes:
        kinds.setdefault(_NAMES.sub("", note.sentence), []).append(note)
    for first, *others in kinds.values():
        more = f" (and {len(others):,} more of this kind)" if others else ""
        yield f"{cut(finding_line('note', package_file_name, first), LONGEST - len(more))}{more}"


# Differences between the places of a run.


def find_differences(packages: Iterable[PackageResult]) -> Iterator[str]:
    """Yield a line for each check that fails in one place and passes in another."""
    for package in packages:
        by_check: dict[str, list[Entry]] = {}
        for entry in package.entries:
            if entry.place:
                by_check.setdefault(entry.check, []).append(entry)
        for check, entries in by_check.items():
            fails = [_name(entry) for entry in entries if entry.outcome is Outcome.FAILED]
            works = [_name(entry) for entry in entries if entry.outcome in GOOD_OUTCOMES]
            if fails and works:
                yield (
                    f"{package.shown_name}: {check}: passes in {name_first(works)}, "
                    f"fails in {name_first(fails)}"
                )


def _name(entry: Entry) -> str:
    return f"{entry.place} ({entry.system})" if entry.system else entry.place
