"""Which check leads where several say the same fault, as reports of one run fold them."""

from __future__ import annotations

from binary_checks.model import Level, RunResult
from binary_checks.reports.faults import fold


def find_leaders(result: RunResult | None) -> list[str]:
    """The checks whose errors a report shows, in its order."""
    packages = result.packages if result else ()
    faults = (fault for package in packages for fault in fold(package.entries))
    return [fault.shown.check for fault in faults if fault.level is Level.ERROR]
