"""What a run found of one build and not of the other, where results are compared."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import Outcome, PackageResult
from binary_checks.model.compared_builds import Change, Severity

_BROKEN = frozenset({Outcome.FAILED, Outcome.ERROR})


@difference
def check_outcomes(old: PackageResult, new: PackageResult) -> Iterator[Change]:
    """The checks that fail, or could not inspect, in one of two runs alone."""
    before = {entry.check: entry for entry in old.entries}
    for entry in new.entries:
        was = before.get(entry.check)
        if was is None or was.outcome is entry.outcome:
            continue
        now = entry.outcome.value.replace("_", " ")
        said = f"{now}, before {was.outcome.value.replace('_', ' ')}"
        first = next((each.sentence for each in entry.problems), entry.reason)
        severity = Severity.INFO
        if entry.outcome in _BROKEN:
            severity = Severity.BREAK
        elif entry.outcome is Outcome.NOT_INSPECTED:
            severity = Severity.CHANGE
        yield Change(
            severity=severity,
            subject=entry.check,
            sentence=f"{said}: {first}" if first else said,
            noun="checks",
        )
