"""Which check leads where several say the same fault, as reports of one run fold them."""

from __future__ import annotations

from typing import Any

from binary_checks.documents.result_reader import decode_results
from binary_checks.errors import ProfileError
from binary_checks.model import Level
from binary_checks.reports.faults import fold


def find_leaders(result: Any, named: str = "result") -> list[str]:
    """The checks whose errors a report shows, in its order; none of what is no result."""
    if not isinstance(result, dict):
        return []
    try:
        run = decode_results({"checks": [], **result}, named)
    except ProfileError:
        return []
    faults = (fault for package in run.packages for fault in fold(package.entries))
    return [fault.shown.check for fault in faults if fault.level is Level.ERROR]
