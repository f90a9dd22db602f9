"""What checks are about: as the results say it, or else as this version of ours has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from binary_checks.declaring import find_checks
from binary_checks.model import CheckText
from binary_checks.reports.explanation import abridge


def find_texts(named: Iterable[str], stated: Mapping[str, CheckText]) -> dict[str, CheckText]:
    """The texts of the named checks, without those that nobody knows."""
    own = _own_texts()
    found = {check: stated.get(check) or own.get(check) for check in named}
    return {check: text for check, text in found.items() if text is not None}


@cache
def _own_texts() -> Mapping[str, CheckText]:
    return {check.id: abridge(check) for check in find_checks()}
