"""Outcomes of checks that differ between two builds, if results of runs are compared."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import GAPS, Change, Outcome, PackageResult, Severity


@difference
def check_outcomes(old: PackageResult, new: PackageResult) -> Iterator[Change]:
    """The checks that fail, or could not inspect the package, in only one of two runs.

    A check that ran in several places is compared place by place. A check that fails now is a break
    if it passed in the old run.
    """
    before = {entry.item: entry.outcome for entry in old.entries}
    for entry in new.entries:
        was = before.get(entry.item)
        if was is entry.outcome or (was is None and entry.outcome is not Outcome.FAILED):
            continue
        earlier = "which the old run did not have" if was is None else f"previously {was.value}"
        text = f"{entry.outcome.value}, {earlier}"
        severity = Severity.CHANGE if entry.outcome in GAPS else Severity.INFO
        if entry.outcome is Outcome.FAILED:
            known = was is not None and was not in GAPS
            severity = Severity.BREAK if known else Severity.CHANGE
        first = next((each.sentence for each in entry.problems), entry.reason)
        yield Change(
            severity=severity,
            subject=entry.item,
            sentence=f"{text}: {first}" if first else text,
            noun="checks",
        )
