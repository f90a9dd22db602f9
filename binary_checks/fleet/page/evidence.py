"""What the store keeps of a cell that is not well: problems, the log's end, how to run it again.

Anything that cannot be read is said on the cell's page, and costs no other page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from binary_checks.documents.result_reader import decode_results
from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.final_states import final_state
from binary_checks.fleet.page.history import CellNight
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.records import read_attempt
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import night_folder, split_attempt
from binary_checks.lines import cut, one_line
from binary_checks.model import CheckText, Run
from binary_checks.reports.html.page import ShownCheck, show_checks

_Found = TypeVar("_Found")
_TAIL, _LINES, _LONGEST = 1 << 16, 80, 400  # bytes, lines and characters of a log
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""What drives a terminal (ECMA-48): colours and titles, of which a page has no need."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEvidence:
    """What one stage of a cell found, or why that cannot be shown."""

    stage: str
    exit_status: str
    checks: tuple[ShownCheck, ...] = ()
    complaints: tuple[str, ...] = ()
    host: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildChange:
    """One line about what is different from the last good build."""

    severity: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEvidence:
    """All that a cell's page has beyond what the tables say."""

    stages: tuple[StageEvidence, ...] = ()
    texts: Mapping[str, CheckText] = field(default_factory=dict)  # of the checks that are named
    log: tuple[str, ...] = ()  # its last lines
    log_cut: bool = False  # whether there are earlier ones
    rerun: str = ""  # a command; "" where there is none
    changes: tuple[BuildChange, ...] = ()
    changes_note: str = ""  # why there are none, or which are not here
    gaps: tuple[str, ...] = ()  # what could not be read, a line each


_Log = tuple[tuple[str, ...], bool]
_Changed = tuple[tuple[BuildChange, ...], str]
Compare = Callable[[CellNight, CellNight], _Changed]
"""Of the last good night and the last one: the lines, and why there are none."""
Rerun = Callable[[PlannedCell], str]


class EvidenceReader:
    """Reads it from a store, for the cells of one night."""

    def __init__(self, store: Store, plan: NightPlan, *, compare: Compare, rerun: Rerun) -> None:
        self._store = store
        self._planned = {each.cell.id: each for each in plan.cells}
        self._compare = compare
        self._rerun = rerun

    def read(self, row: CellNight, last_good: CellNight | None, *, whole: bool) -> CellEvidence:
        """What there is of a cell; of one that is well (not ``whole``) only how to run it again."""
        gaps = list[str]()
        planned = self._planned.get(row.cell)
        if planned is None:
            return CellEvidence(gaps=("the night's plan does not have this cell",))
        rerun = _try(lambda: self._rerun(planned), "", gaps)
        if not whole:
            return CellEvidence(rerun=rerun, gaps=tuple(gaps))
        attempts: list[Attempt] = _try(lambda: [*self._attempts(row, gaps)], [], gaps)
        last = final_state(planned, attempts).last
        found = [_show_stage(attempt, gaps) for attempt in last.values()]
        no_log: _Log = ((), False)
        log = _try(lambda: self._read_log(row.log), no_log, gaps)
        changed: _Changed = ((), "")
        if last_good is not None and row.sha256 and row.sha256 != last_good.sha256:
            changed = _try(lambda: self._compare(last_good, row), changed, gaps)
        return CellEvidence(
            stages=tuple(stage for stage, _ in found),
            texts={each.id: each for _, texts in found for each in texts},
            log=log[0],
            log_cut=log[1],
            rerun=rerun,
            changes=changed[0],
            changes_note=changed[1],
            gaps=tuple(gaps),
        )

    def _attempts(self, row: CellNight, gaps: list[str]) -> Iterator[Attempt]:
        """The cell's attempts of the night, without those that cannot be read."""
        for stored in self._store.names(f"{night_folder(row.night)}results/{row.cell}."):
            known = split_attempt(stored.name)
            if known and known[0] == row.cell and stored.name.endswith(".json"):
                content = self._store.read(stored.name)
                if content is not None and (
                    attempt := _try(lambda: read_attempt(content, stored.name), None, gaps)  # noqa: B023 - called at once
                ):
                    yield attempt

    def _read_log(self, name: str) -> _Log:
        if not name:
            return (), False
        with self._store.local(name) as path:
            return read_tail(path)


def _try(ask: Callable[[], _Found], otherwise: _Found, gaps: list[str]) -> _Found:
    try:
        return ask()
    except (BinaryChecksError, OSError) as error:
        gaps.append(cut(one_line(str(error))))
        return otherwise


def read_tail(path: Path) -> _Log:
    """The last lines of a log of any bytes, fit to be shown, and whether there are earlier ones."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        text = file.read(_TAIL).decode("utf-8", "backslashreplace")
    lines = _CONTROLS.sub("", text).replace("\r\n", "\n").rstrip().split("\n")
    if size > _TAIL:
        lines = lines[1:] or lines  # the first one is cut
    shown = [one_line(line.rpartition("\r")[2].expandtabs()) for line in lines[-_LINES:]]
    return (
        tuple(cut(line, _LONGEST) for line in shown) if any(shown) else (),
        size > _TAIL or len(lines) > _LINES,
    )


def _show_stage(attempt: Attempt, gaps: list[str]) -> tuple[StageEvidence, tuple[CheckText, ...]]:
    """What an attempt found, with the texts of the checks that it names."""
    run: Run | None = None
    if attempt.result is not None:
        named = f"{attempt.cell}.{attempt.stage}{attempt.number}: result"
        run = _try(lambda: decode_results(attempt.result, named), None, gaps)
    texts = {check.id: check for check in run.checks} if run else {}
    checks = tuple(
        check for package in (run.packages if run else ()) for check in show_checks(package, texts)
    )
    named_checks = {check.id for check in checks}
    return (
        StageEvidence(
            stage=attempt.stage,
            exit_status=_spell_end(attempt),
            checks=checks,
            complaints=tuple(cut(one_line(each)) for each in run.complaints) if run else (),
            host=one_line(attempt.host)[:80],
        ),
        tuple(text for text in texts.values() if one_line(text.id) in named_checks),
    )


def _spell_end(attempt: Attempt) -> str:
    if attempt.signal:
        return f"killed by signal {attempt.signal}"
    return "no exit status" if attempt.exit_status is None else f"exit {attempt.exit_status}"
