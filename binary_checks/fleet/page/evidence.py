"""Evidence for a cell's page, read from the store: problems, log, changes, command to repeat it.

Parts that cannot be read are listed on the cell's page and affect no other page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from binary_checks.declaring import find_checks
from binary_checks.differences import compare
from binary_checks.documents.builds import read_build
from binary_checks.fleet.night import CPU, GOOD, Attempt, NightPlan, PlannedCell, final_state
from binary_checks.fleet.nights import rerun_command
from binary_checks.fleet.page.night_reading import Row, try_to_read
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.kept_facts import open_facts
from binary_checks.fleet.stored_nights import NightAttempts
from binary_checks.model import Build, BuildComparison, CellState, CheckText, DifferenceLine
from binary_checks.reports.explanation import abridge
from binary_checks.reports.html.page import show_checks
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

_ALIKE = (
    "Modules, libraries, symbols, requirements and sizes are the same: the cause is in the "
    "contents of the files, or not in the package."
)
_TAIL, _LINES, _LONGEST = 1 << 16, 80, 400  # of a log's end: bytes, lines, characters of a line
_CHANGES = 40  # lines of a comparison
_COMPARED = 40  # comparisons of builds; comparing two of torch takes a second
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Matches terminal control sequences (ECMA-48) for colours and titles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEvidence:
    """The content of a cell's page that is not in the tables."""

    stages: tuple[Row, ...] = ()  # the findings of each stage
    texts: Mapping[str, CheckText] = field(default_factory=dict)  # descriptions of the named checks
    log: tuple[str, ...] = ()  # its last lines
    log_cut: bool = False  # whether the log has earlier lines
    rerun: str = ""  # a command, or ""
    changes: tuple[DifferenceLine, ...] = ()
    changes_note: str = ""  # why changes are missing or incomplete
    gaps: tuple[str, ...] = ()  # parts that could not be read, a line each


_Log = tuple[tuple[str, ...], bool]
_NO_LOG: _Log = ((), False)
_Changed = tuple[tuple[DifferenceLine, ...], str]


class EvidenceReader:
    """Reads the evidence for the cells of one night from a store."""

    def __init__(self, store: Store, plan: NightPlan | None) -> None:
        self._store = store
        self._plan = plan
        self._compared: dict[tuple[str, str], _Changed] = {}
        self._planned = {each.cell.id: each for each in plan.cells} if plan else {}
        self._attempts = NightAttempts(store, plan.night if plan else "")

    def read(self, row: Row) -> CellEvidence:
        """Return the evidence of a cell, a row of `tonight`; of a good one only the command."""
        gaps = list[str]()
        planned = self._planned.get(row["cell"])
        plan = self._plan
        if plan is None or planned is None:
            return CellEvidence(gaps=("the night's plan does not contain this cell",))
        if CellState(row["state"]) in GOOD:
            rerun = try_to_read(lambda: self._rerun(plan, planned, {}), "", gaps)
            return CellEvidence(rerun=rerun, gaps=tuple(gaps))
        attempts: list[Attempt] = try_to_read(
            lambda: [*self._attempts.read(row["cell"], gaps)], [], gaps
        )
        last = final_state(planned, attempts).last
        stages = tuple(_show_stage(attempt) for attempt in last.values())
        log = try_to_read(lambda: self._read_log(row["log"]), _NO_LOG, gaps)
        changed: _Changed = ((), "")
        if row["last_good"] and row["sha256"] != row["good_sha256"]:
            changed = try_to_read(lambda: self._compare(row), changed, gaps)
        return CellEvidence(
            stages=stages,
            texts={
                check.id: check.text for each in stages for check in each["checks"] if check.text
            },
            log=log[0],
            log_cut=log[1],
            rerun=try_to_read(lambda: self._rerun(plan, planned, last), "", gaps),
            changes=changed[0],
            changes_note=changed[1],
            gaps=tuple(gaps),
        )

    def _rerun(self, plan: NightPlan, planned: PlannedCell, last: Mapping[str, Attempt]) -> str:
        """Return the command that repeats the cell, with the image of its first stage, or ""."""
        attempt = last.get(CPU)
        result = attempt.result if attempt else None
        command = rerun_command(plan, planned, self._store.url, result)
        return command if command.isprintable() else ""

    def _compare(self, row: Row) -> _Changed:
        """Return the changes since the last good night, and a note if they are incomplete."""
        nights = {row["last_good"]: row["good_facts"], row["night"]: row["facts"]}
        lacking = [night for night, facts in nights.items() if not facts]
        if lacking:
            return (), f"Not compared: the night of {lacking[0]} has no facts of this cell."
        old, new = pair = (row["good_facts"], row["facts"])
        if pair not in self._compared:
            if len(self._compared) == _COMPARED:
                sides = (f"store:{row['cell']}@{night}" for night in nights)
                store = ("--store", self._store.url)
                command = cut(one_line(shlex.join(("binary-checks", "diff", *sides, *store))))
                return (), f"Not compared here, because too many cells are broken; run {command}"
            found = compare(self._read_build(old, row), self._read_build(new, row))
            self._compared[pair] = found.lines[:_CHANGES], _format_rest(found)
        return self._compared[pair]

    def _read_build(self, facts: str, row: Row) -> Build:
        with open_facts(self._store, facts) as path:
            return read_build(path, f"facts of {row['cell']}")

    def _read_log(self, name: str) -> _Log:
        if not name:
            return _NO_LOG
        with self._store.local(name) as path:
            return read_tail(path)


def _format_rest(found: BuildComparison) -> str:
    """Return a note about further lines, and about what could not be compared."""
    texts = []
    if not found.lines and not found.not_compared:
        texts.append(_ALIKE)
    if len(found.lines) > _CHANGES:
        texts.append(f"And {count(len(found.lines) - _CHANGES, 'line')} more.")
    if found.not_compared:
        first = found.not_compared[0]
        reason = f"{first.subject}: {first.reason}" if first.subject else first.reason
        more = count(len(found.not_compared), "thing")
        texts.append(cut(one_line(f"{more} could not be compared: {reason}")))
    return " ".join(texts)


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


def _show_stage(attempt: Attempt) -> Row:
    """Return an attempt's findings."""
    complaints = attempt.result.complaints if attempt.result else ()
    systems = (name for package in attempt.packages for name in package.operating_systems)
    return {
        "stage": attempt.stage,
        "exit_status": attempt.ending,
        "checks": [
            check for package in attempt.packages for check in show_checks(package, _read_texts())
        ],
        "complaints": [cut(one_line(each)) for each in complaints],
        "systems": [cut(one_line(name)) for name in systems],
    }


@cache
def _read_texts() -> Mapping[str, CheckText]:
    """Return the descriptions of this version's checks, which stored results leave out."""
    return {check.id: abridge(check) for check in find_checks()}
