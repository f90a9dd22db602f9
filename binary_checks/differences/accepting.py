"""Differences that a project has accepted, and for how long: the entries that problems have too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from binary_checks.model import Problem
from binary_checks.model.run_results import Change, NotCompared
from binary_checks.profile.known import KnownProblem, accept, find_expired, find_stale

GAP = "not-compared"
"""What entries call a difference that could not be looked for."""


class Waivers:
    """The entries for one comparison, and what they met."""

    def __init__(self, known: Sequence[KnownProblem], file_name: str, today: date) -> None:
        self._known = [each for each in known if each.selects(file_name)]
        self._today = today
        self._met: dict[str, list[Problem]] = {}
        self._remaining: dict[str, list[Problem]] = {}

    def accept(self, name: str, change: Change) -> str:
        """The reason of the entry that accepts a change; "" where none does."""
        return self._accept(name, Problem(path=change.subject, sentence=change.sentence))

    def accept_gap(self, gap: NotCompared) -> NotCompared:
        """The same of something that could not be compared."""
        reason = self._accept(GAP, Problem(path=gap.subject, sentence=gap.reason))
        return replace(gap, accepted=reason)

    def _accept(self, name: str, problem: Problem) -> str:
        self._met.setdefault(name, []).append(problem)
        entries = [each for each in self._known if each.check == name]
        reason = next((each.reason for each in accept([problem], entries, self._today)), "")
        if not reason:
            self._remaining.setdefault(name, []).append(problem)
        return reason

    def complaints(self) -> Iterator[str]:
        """Entries that met nothing, or have expired while what they accepted is still there."""
        for name in sorted({each.check for each in self._known}):
            entries = [each for each in self._known if each.check == name]
            for problem in find_stale(entries, self._met.get(name, [])):
                yield problem.sentence
            for problem in find_expired(entries, self._remaining.get(name, []), self._today):
                yield problem.sentence
