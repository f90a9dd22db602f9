"""One package under examination: its name, its source, the checks asked for, and its facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binary_checks.declaring import Check
from binary_checks.gather.facts import Facts
from binary_checks.model.protocols import Source


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Examination:
    """All that a run knows of one package; its facts are gathered when a check asks for them."""

    node: str  # by which reports call it, in characters that may be shown
    place: str  # the same in the characters of the file's name
    source: Source
    asked: frozenset[str] = frozenset()  # the checks that the user named; none is all
    checks: tuple[Check[Any], ...]  # that are to judge it, where they apply
    facts: Facts

    @property
    def file_name(self) -> str:
        """The package in the lines that are printed of it."""
        return self.source.label
