"""Toy differences: one over packages and one over objects."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import difference
from binary_checks.model import Change, Severity
from tests.extensions.box_kind import Boxed
from tests.extensions.rune_format import RuneFile


@difference
def texts(old: Boxed, new: Boxed) -> Iterator[Change]:
    """What lies in a box."""
    for name in sorted({*old.texts} - {*new.texts}):
        yield Change(severity=Severity.BREAK, subject=name, sentence="was taken out")


@difference
def woods(old: RuneFile, new: RuneFile) -> Iterator[Change]:
    """What a rune needs."""
    for need in sorted({each.name for each in new.needed} - {each.name for each in old.needed}):
        yield Change(severity=Severity.CHANGE, sentence=f"needs {need}")
