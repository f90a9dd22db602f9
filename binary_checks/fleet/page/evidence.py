"""Evidence for a cell's page, read from the store: problems, log, changes, command to repeat it.

Parts that cannot be read are listed on the cell's page and affect no other page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from binary_checks.declaring import find_checks
from binary_checks.differences import compare
from binary_checks.documents.builds import read_build
from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.night import CPU, Attempt, NightPlan, PlannedCell, final_state
from binary_checks.fleet.nights import rerun_command
from binary_checks.fleet.page.history import CellNight
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.kept_facts import open_facts
from binary_checks.fleet.stored_nights import NightAttempts
from binary_checks.model import Build, BuildComparison, CheckText
from binary_checks.reports.explanation import abridge
from binary_checks.reports.html.page import ShownCheck, show_checks
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

_ALIKE = (
    "Modules, libraries, symbols, requirements and sizes are the same: the cause is in the "
    "contents of the files, or not in the package."
)
_Found = TypeVar("_Found")
_TAIL, _LINES, _LONGEST = 1 << 16, 80, 400  # of a log's end: bytes, lines, characters of a line
_CHANGES = 40  # lines of a comparison
_COMPARED = 40  # comparisons of builds; comparing two of torch takes a second
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Matches terminal control sequences (ECMA-48) for colours and titles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEvidence:
    """The findings of one stage of a cell."""

    stage: str
    exit_status: str
    checks: tuple[ShownCheck, ...] = ()
    complaints: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()  # the operating systems on which the package ran


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildChange:
    """One line about a difference from the last good build."""

    severity: str
    difference: str  # its id
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEvidence:
    """The content of a cell's page that is not in the tables."""

    stages: tuple[StageEvidence, ...] = ()
    texts: Mapping[str, CheckText] = field(default_factory=dict)  # descriptions of the named checks
    log: tuple[str, ...] = ()  # its last lines
    log_cut: bool = False  # whether the log has earlier lines
    rerun: str = ""  # a command, or ""
    changes: tuple[BuildChange, ...] = ()
    changes_note: str = ""  # why changes are missing or incomplete
    gaps: tuple[str, ...] = ()  # parts that could not be read, a line each


_Log = tuple[tuple[str, ...], bool]
_Changed = tuple[tuple[BuildChange, ...], str]


class EvidenceReader:
    """Reads the evidence for the cells of one night from a store."""

    def __init__(self, store: Store, plan: NightPlan | None) -> None:
        self._store = store
        self._plan = plan
        self._compared: dict[tuple[str, str], _Changed] = {}
        self._planned = {each.cell.id: each for each in plan.cells} if plan else {}
        self._attempts = NightAttempts(store, plan.night if plan else "")

    def read(self, row: CellNight, last_good: CellNight | None, whole: bool) -> CellEvidence:
        """Return a cell's evidence; unless ``whole``, only the command that repeats the cell."""
        gaps = list[str]()
        planned = self._planned.get(row.cell)
        if planned is None:
            return CellEvidence(gaps=("the night's plan does not contain this cell",))
        if not whole:
            rerun = _try(lambda: self._rerun(planned, {}), "", gaps)
            return CellEvidence(rerun=rerun, gaps=tuple(gaps))
        attempts: list[Attempt] = _try(lambda: [*self._attempts.read(row.cell, gaps)], [], gaps)
        last = final_state(planned, attempts).last
        found = [_show_stage(attempt) for attempt in last.values()]
        no_log: _Log = ((), False)
        log = _try(lambda: self._read_log(row.log), no_log, gaps)
        changed: _Changed = ((), "")
        if last_good is not None and row.sha256 != last_good.sha256:
            changed = _try(lambda: self._compare(last_good, row), changed, gaps)
        return CellEvidence(
            stages=tuple(stage for stage, _ in found),
            texts={check: text for _, texts in found for check, text in texts.items()},
            log=log[0],
            log_cut=log[1],
            rerun=_try(lambda: self._rerun(planned, last), "", gaps),
            changes=changed[0],
            changes_note=changed[1],
            gaps=tuple(gaps),
        )

    def _rerun(self, planned: PlannedCell, last: Mapping[str, Attempt]) -> str:
        """Return the command that repeats the cell, with the image of its first stage, or ""."""
        if self._plan is None:
            return ""
        attempt = last.get(CPU)
        result = attempt.result if attempt else None
        command = rerun_command(self._plan, planned, self._store.url, result)
        return command if command.isprintable() else ""

    def _compare(self, old: CellNight, new: CellNight) -> _Changed:
        """Return the changes between two nights' packages, and a note if they are incomplete."""
        if not old.facts or not new.facts:
            lacking = old if not old.facts else new
            return (), f"Not compared: the night of {lacking.night} has no facts of this cell."
        pair = (old.facts, new.facts)
        if pair not in self._compared:
            if len(self._compared) == _COMPARED:
                command = self._name_diff(old, new)
                return (), f"Not compared here, because too many cells are broken; run {command}"
            self._compared[pair] = self._compare_facts(old, new)
        return self._compared[pair]

    def _name_diff(self, old: CellNight, new: CellNight) -> str:
        sides = (f"store:{row.cell}@{row.night}" for row in (old, new))
        store = ("--store", self._store.url)
        return cut(one_line(shlex.join(("binary-checks", "diff", *sides, *store))))

    def _compare_facts(self, old: CellNight, new: CellNight) -> _Changed:
        found = compare(self._read_build(old), self._read_build(new))
        lines = tuple(
            BuildChange(
                severity=each.severity.value,
                difference=each.difference,
                text=cut(one_line(each.text)),
            )
            for each in found.lines
        )
        return lines[:_CHANGES], _format_rest(lines, found)

    def _read_build(self, row: CellNight) -> Build:
        with open_facts(self._store, row.facts) as path:
            return read_build(path, f"facts of {row.cell} of {row.night}")

    def _read_log(self, name: str) -> _Log:
        if not name:
            return (), False
        with self._store.local(name) as path:
            return read_tail(path)


def _format_rest(lines: tuple[BuildChange, ...], found: BuildComparison) -> str:
    """Return a note about further lines, and about what could not be compared."""
    texts = []
    if not lines and not found.not_compared:
        texts.append(_ALIKE)
    if len(lines) > _CHANGES:
        texts.append(f"And {count(len(lines) - _CHANGES, 'line')} more.")
    if found.not_compared:
        first = found.not_compared[0]
        reason = f"{first.subject}: {first.reason}" if first.subject else first.reason
        more = count(len(found.not_compared), "thing")
        texts.append(cut(one_line(f"{more} could not be compared: {reason}")))
    return " ".join(texts)


def _try(ask: Callable[[], _Found], otherwise: _Found, gaps: list[str]) -> _Found:
    try:
        return ask()
    except (BinaryChecksError, OSError) as error:
        gaps.append(cut(one_line(str(error))))
        return otherwise


def read_tail(path: Path) -> _Log:
    """Return a log's last lines without control characters, and whether earlier lines exist."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        text = file.read(_TAIL).decode("utf-8", "backslashreplace")
    lines = _CONTROLS.sub("", text).replace("\r\n", "\n").rstrip().split("\n")
    if size > _TAIL:
        lines = lines[1:] or lines  # the first line is incomplete
    shown = [one_line(line.rpartition("\r")[2].expandtabs()) for line in lines[-_LINES:]]
    return (
        tuple(cut(line, _LONGEST) for line in shown) if any(shown) else (),
        size > _TAIL or len(lines) > _LINES,
    )


def _show_stage(attempt: Attempt) -> tuple[StageEvidence, dict[str, CheckText]]:
    """Return an attempt's findings and the descriptions of the checks in them."""
    run = attempt.result
    packages = run.packages if run else ()
    stated = {check.id: check for check in run.checks} if run else {}
    named = {e.check for package in packages for e in package.entries if e.problems or e.warnings}
    texts = find_texts(sorted(named), stated)
    shown = StageEvidence(
        stage=attempt.stage,
        exit_status=_format_end(attempt),
        checks=tuple(check for package in packages for check in show_checks(package, texts)),
        complaints=tuple(cut(one_line(each)) for each in run.complaints) if run else (),
        systems=tuple(
            cut(one_line(name)) for package in packages for name in package.operating_systems
        ),
    )
    return shown, texts


def _format_end(attempt: Attempt) -> str:
    if attempt.signal:
        return f"killed by signal {attempt.signal}"
    return "no exit status" if attempt.exit_status is None else f"exit {attempt.exit_status}"


# Descriptions of checks, from the results or from this version.


def find_texts(named: Iterable[str], stated: Mapping[str, CheckText]) -> dict[str, CheckText]:
    """Return the descriptions of the named checks, without unknown ones."""
    own = _own_texts()
    found = {check: stated.get(check) or own.get(check) for check in named}
    return {check: text for check, text in found.items() if text is not None}


@cache
def _own_texts() -> Mapping[str, CheckText]:
    return {check.id: abridge(check) for check in find_checks()}
