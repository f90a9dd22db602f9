"""What works in one place of a run alone: lines that name both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.model import Entry, Outcome, PackageResult
from binary_checks.model.outcomes import GOOD_OUTCOMES
from binary_checks.wording.sentences import name_first


def find_differences(packages: Iterable[PackageResult]) -> Iterator[str]:
    """Say of each check that found problems in one place, and none in another, which these are."""
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
                    f"{package.file_name}: {check}: passes in {name_first(works)}, "
                    f"fails in {name_first(fails)}"
                )


def _name(entry: Entry) -> str:
    return f"{entry.place} ({entry.system})" if entry.system else entry.place
