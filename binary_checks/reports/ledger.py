"""What a whole run found: entries in, from any worker; summary and complaints out."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from binary_checks.judging import Accepted, Verdict, problem_line
from binary_checks.lines import MOST, MOST_OF_A_RUN, cut, one_line
from binary_checks.model import Note, NotInspected, Problem

_Finding = TypeVar("_Finding", Problem, NotInspected, Note)


class Outcome(str, Enum):
    """How one check ended on one package."""

    PASSED = "passed"
    FAILED = "failed"
    ACCEPTED = "accepted"
    NOT_APPLICABLE = "not applicable"
    NOT_INSPECTED = "not inspected"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One check on one package, in a form that travels between processes."""

    node: str  # the package's node id
    check: str
    family: str
    outcome: Outcome
    reason: str = ""  # why it was not applicable, not inspected or broke; one line
    verdict: Verdict | None = None
    objects: int | None = None  # object files in the package, once it was read
    expected_objects: int = 0  # how many the profile or the platform tag calls for

    @property
    def inspected(self) -> int:
        """How many subjects were judged."""
        return self.verdict.inspected if self.verdict else 0

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return {**_take_apart(self), "outcome": self.outcome.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
        """What ``to_json`` gave."""
        return cls(
            **{
                **value,
                "outcome": Outcome(value["outcome"]),
                "verdict": value["verdict"] and _verdict(value["verdict"]),
            }
        )


def _take_apart(value: Any) -> Any:
    """A dictionary, with one text for all findings of a kind: there may be 100,000 of them."""
    if isinstance(value, tuple):
        return json.dumps([_row(each) for each in value])
    if isinstance(value, (Entry, Verdict)):
        return {name: _take_apart(getattr(value, name)) for name in value.__slots__}
    return value


def _row(finding: Accepted | Problem | NotInspected | Note) -> list[Any]:
    if isinstance(finding, Accepted):
        return [*_row(finding.problem), finding.reason]
    return [getattr(finding, name) for name in finding.__slots__]


def _verdict(value: Mapping[str, Any]) -> Verdict:
    return Verdict(
        **{
            **value,
            "problems": tuple(_together(Problem, json.loads(value["problems"]))),
            "accepted": tuple(
                Accepted(problem=Problem(path=path, sentence=sentence), reason=reason)
                for path, sentence, reason in json.loads(value["accepted"])
            ),
            "not_inspected": tuple(_together(NotInspected, json.loads(value["not_inspected"]))),
            "notes": tuple(_together(Note, json.loads(value["notes"]))),
        }
    )


def _together(kind: type[_Finding], rows: list[list[Any]]) -> Iterator[_Finding]:
    """Findings again, which share the sentences that came over one by one."""
    known: dict[Any, Any] = {}
    for path, *others in rows:
        shared = (path, *(known.setdefault(part, part) for part in others))
        yield kind(**dict(zip(kind.__slots__, shared, strict=True)))


class Ledger:
    """The entries of a run, as they come in."""

    def __init__(
        self,
        *,
        packages: tuple[str, ...] = (),
        required: frozenset[str] = frozenset(),
        entries: Iterable[Entry] = (),
    ) -> None:
        self.packages = packages  # node ids of the packages that the user named
        self.required = required  # families given to --binary-require
        self.entries = list(entries)

    def add(self, entry: Entry) -> None:
        """Take in one entry."""
        self.entries.append(entry)

    def complaints(self) -> Iterator[str]:
        """One line for each thing that must not stay green although no check failed."""
        by_node = defaultdict[str, list[Entry]](list)
        for entry in self.entries:
            by_node[entry.node].append(entry)
        for node in self.packages:
            yield from _nothing_verified(node, by_node[node])
        for family in sorted(self.required):
            ours = [entry for entry in self.entries if entry.family == family]
            if not any(entry.inspected for entry in ours):
                reasons = _most_common(e.reason for e in ours) or "no check of it was selected"
                yield f"--binary-require {family}: nothing ran ({reasons})"

    def summary(self) -> Iterator[str]:
        """A table with one row a family, then the reasons of what was not inspected, then notes."""
        rows = [_ROW_HEADINGS, *(self._row(family) for family in self._families())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_ROW_HEADINGS))]
        for family, *numbers in rows:
            cells = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
            yield "  ".join((family.ljust(widths[0]), *cells))
        yield from self._reasons()
        yield from self._notes()

    def _families(self) -> list[str]:
        return sorted({entry.family for entry in self.entries})

    def _row(self, family: str) -> tuple[str, ...]:
        ours = [entry for entry in self.entries if entry.family == family]
        verdicts = [entry.verdict for entry in ours if entry.verdict]
        most: dict[str, int] = {}  # objects looked at, by package: its checks look at the same ones
        for entry in ours:
            most[entry.node] = max(entry.inspected, most.get(entry.node, 0))
        numbers = (
            sum(1 for entry in ours if entry.inspected),
            sum(most.values()),
            sum(len(verdict.problems) for verdict in verdicts),
            sum(len(verdict.accepted) for verdict in verdicts),
            sum(entry.outcome is Outcome.NOT_APPLICABLE for entry in ours),
            sum(_has_gap(entry) for entry in ours),
        )
        return (family, *(str(number) if number else "-" for number in numbers))

    def _reasons(self) -> Iterator[str]:
        told: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            if entry.outcome in _WITHOUT_VERDICT:
                told.setdefault((entry.outcome.value, entry.reason), []).append(entry)
            elif _has_gap(entry):
                key = (Outcome.NOT_INSPECTED.value, gap(entry.verdict))
                told.setdefault(key, []).append(entry)
        gaps: list[str] = []
        # What does not apply is no gap: a line a family.
        shared: dict[tuple[str, str], list[str]] = {}
        for (outcome, reason), entries in sorted(told.items()):
            whose, families = self._whose(entries), ", ".join(sorted({e.family for e in entries}))
            if outcome == Outcome.NOT_APPLICABLE.value:
                shared.setdefault((whose, families), []).append(reason)
            else:
                gaps.append(f"{outcome}: {whose}{reason} ({families})")
        for (whose, families), reasons in shared.items():
            yield f"{Outcome.NOT_APPLICABLE.value}: {whose}{'; '.join(reasons)} ({families})"
        yield from gaps[:MOST_OF_A_RUN]
        if more := len(gaps[MOST_OF_A_RUN:]):
            yield f"{Outcome.NOT_INSPECTED.value}: and {more:,} more reasons"

    def _whose(self, entries: Iterable[Entry]) -> str:
        """The package that a line is about, where the run has several."""
        nodes = sorted({entry.node for entry in entries})
        if len(self.packages) < 2:
            return ""
        return f"{_file_name(nodes[0])}: " if len(nodes) == 1 else f"{len(nodes)} packages: "

    def _notes(self) -> Iterator[str]:
        verdicts = [entry.verdict for entry in self.entries if entry.verdict]
        lines = sorted(
            {problem_line("note", v.package, note) for v in verdicts for note in v.notes[:MOST]}
        )
        yield from map(cut, lines[:MOST_OF_A_RUN])
        hidden = sum(len(each.notes[MOST:]) for each in verdicts) + len(lines[MOST_OF_A_RUN:])
        if hidden:
            yield f"note: and {hidden:,} more, in the report (--binary-sarif FILE)"


_ROW_HEADINGS = (
    *("family", "checks", "looked at", "problems", "accepted"),
    *("not applicable", "not inspected"),
)


_WITHOUT_VERDICT = (Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED, Outcome.ERROR)


def _file_name(node: str) -> str:
    return one_line(node.rpartition("/")[2])


def _has_gap(entry: Entry) -> bool:
    return entry.outcome is Outcome.NOT_INSPECTED or bool(
        entry.verdict and entry.verdict.not_inspected
    )


def gap(verdict: Verdict | None) -> str:
    """What a check that ran could not see, in one line; "" when it saw all."""
    if verdict is None or not verdict.not_inspected:
        return ""
    first = verdict.not_inspected[0]
    where = f"{first.path}: " if first.path else ""
    more = len(verdict.not_inspected) - 1
    return cut(one_line(f"{where}{first.sentence}")) + (f" (and {more} more)" if more else "")


def _nothing_verified(node: str, entries: list[Entry]) -> Iterator[str]:
    name = _file_name(node)
    if not any(entry.inspected or entry.outcome is Outcome.FAILED for entry in entries):
        reason = _most_common(entry.reason for entry in entries) or "no check of it was selected"
        yield f"{name}: nothing was verified ({reason})"
        return
    for entry in entries:
        if entry.objects is not None and entry.objects < entry.expected_objects:
            yield (
                f"{name}: nothing was verified ({entry.objects} object files, "
                f"expected at least {entry.expected_objects}; say objects = {entry.objects} "
                "in the profile if that is right)"
            )
            return


def _most_common(reasons: Iterable[str]) -> str:
    counted = Counter(reason for reason in reasons if reason)
    return counted.most_common(1)[0][0] if counted else ""
