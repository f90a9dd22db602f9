"""Toy differences: one over packages and one over objects."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import Change, Severity
from tests.extensions.rune_format import RuneFile
from tests.extensions.toy_kind import Toy


@difference
def texts(old: Toy, new: Toy) -> Iterator[Change]:
    """What lies in a box."""
    for each in sorted({each.path for each in old.members} - {each.path for each in new.members}):
        yield Change(severity=Severity.BREAK, subject=each, sentence="was taken out")


@difference
def woods(old: RuneFile, new: RuneFile) -> Iterator[Change]:
    """What a rune needs."""
    for need in sorted({each.name for each in new.needed} - {each.name for each in old.needed}):
        yield Change(severity=Severity.CHANGE, sentence=f"needs {need}")
