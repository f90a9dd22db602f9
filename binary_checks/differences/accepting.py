"""Differences that a project has accepted until a date, by entries as for known problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from binary_checks.model import Change, NotCompared, Problem
from binary_checks.profile import KnownProblem, accept, find_expired, find_stale

GAP = "not-compared"
"""The id by which entries accept a difference that could not be looked for."""


class Waivers:
    """The entries of known differences for one comparison, and what they accepted."""

    def __init__(self, known: Sequence[KnownProblem], file_name: str, today: date) -> None:
        self._known = [each for each in known if each.selects(file_name)]
        self._today = today
        self._met: dict[str, list[Problem]] = {}
        self._remaining: dict[str, list[Problem]] = {}

    def accept(self, name: str, change: Change) -> str:
        """Return the reason of the entry that accepts a change; "" if none does."""
        return self._accept(name, Problem(path=change.subject, sentence=change.sentence))

    def accept_gap(self, gap: NotCompared) -> NotCompared:
        """Return the gap with the reason of the entry that accepts it, if one does."""
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
        """Yield a sentence for each entry that matched nothing or whose date has passed."""
        for name in sorted({each.check for each in self._known}):
            entries = [each for each in self._known if each.check == name]
            for problem in find_stale(entries, self._met.get(name, [])):
                yield problem.sentence
            for problem in find_expired(entries, self._remaining.get(name, []), self._today):
                yield problem.sentence
