"""What each `nightly run` printed is kept with its night, merged with it, and shown again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from binary_checks.command.actions import NIGHTLY
from binary_checks.errors import StoreError
from binary_checks.fleet.night import Attempt, Cell, CellEnd, PlannedCell
from binary_checks.fleet.nights import (
    CoordinatorLog,
    NextAttempt,
    merge_night,
    read_coordinator_logs,
)
from binary_checks.fleet.store import (
    Store,
    closed_name,
    coordinator_log_name,
    open_store,
)
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import NIGHT, keep_plan, plan_cell, run_night

Lines = pytest.CaptureFixture[str]
HOSTILE = "needs \x1b]0;owned\x07lib.so\n::error::and obeys"


def logs_of(store: Store) -> list[list[str]]:
    """The lines of each log, without their times."""
    broken: list[str] = []
    found = [lines for _, lines in read_coordinator_logs(store, NIGHT, broken)]
    assert broken == []
    stamped = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 (.*)")
    return [[stamped.fullmatch(line)[1] for line in lines] for lines in found]  # type: ignore[index]


def test_the_log_has_every_attempt_every_cell_and_what_was_printed(
    store: Store, tmp_path: Path, capsys: Lines
) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 6", "exit 0"))
    assert run_night(store) == 0
    (lines,) = logs_of(store)
    assert re.match(r"binary-checks \S+ on \S+, process \d+$", lines[0])
    assert "1 cell" in lines
    assert any(
        re.match(r"numpy\.cpu1 on \S+: infra.*; attempt 2 of at most 3 in 0 s$", line)
        for line in lines
    )
    assert any(re.match(r"numpy\.cpu2 on \S+: passed", line) for line in lines)
    assert any(line.startswith("· numpy: passed (") for line in lines)
    printed = capsys.readouterr().out.splitlines()
    assert lines[-2:] == printed[-2:]


def test_every_run_of_a_night_has_a_log_of_its_own(store: Store, tmp_path: Path) -> None:
    keep_plan(store, *(plan_cell(tmp_path, f"c{number}", "exit 0") for number in range(2)))
    assert run_night(store, "--shard", "1/2") == 0
    assert run_night(store) == 0
    first, second = sorted(logs_of(store), key=lambda lines: "2 cells" in " ".join(lines))
    assert any("c0: passed" in line for line in first)
    assert "2 cells, 1 of them started before" in second


def test_an_error_that_ends_a_run_is_in_its_log(store: Store, tmp_path: Path) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))
    assert run_night(store, "--cell", "nunpy") == 4
    (lines,) = logs_of(store)
    assert "nunpy" in lines[-1]


def test_a_night_that_closed_meanwhile_gets_no_log(store: Store, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        log = CoordinatorLog(out)
        store.create(closed_name(NIGHT), b"{}")
        assert not log.keep(store, NIGHT)
    assert logs_of(store) == []


def test_what_comes_from_outside_is_one_printable_line(store: Store, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        log = CoordinatorLog(out)
        planned = PlannedCell(cell=Cell(id="scipy", project="scipy"))
        attempt = Attempt(
            night=NIGHT, cell="scipy", number=1, state=CellState.LOST, reason=HOSTILE,
            started="", seconds=2.0,
        )  # fmt: skip
        log.finish(attempt, NextAttempt(number=2, pause=30.0))
        log.end(planned, CellEnd(state=CellState.FAILED, evidence=HOSTILE))
        assert log.keep(store, NIGHT)
    (lines,) = logs_of(store)
    assert len(lines) == 3
    said = r"needs \x1b]0;owned\x07lib.so\n\x3a:error::and obeys"
    assert lines[1:] == [
        f"scipy.cpu1 on an unknown host: lost: {said}; attempt 2 of at most 3 in 30 s",
        f"X scipy: failed: {said} (0.0 s; 1 of 0)",
    ]


def test_logs_of_jobs_are_merged_once(tmp_path: Path) -> None:
    main = open_store(str(tmp_path / "main"), make=True)
    keep_plan(main, plan_cell(tmp_path, "numpy", "exit 0"))
    job = open_store(str(tmp_path / "jobs" / "one"), make=True)
    keep_plan(job, plan_cell(tmp_path, "numpy", "exit 0"))
    assert run_night(job) == 0
    for _ in range(2):
        merge_night(main, NIGHT, [tmp_path / "jobs"])
        assert logs_of(main) == logs_of(job)
    assert len(logs_of(main)) == 1


def test_a_store_that_fails_at_the_end_costs_the_log_alone(
    store: Store, tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))

    def fail(log: CoordinatorLog, store: Store, night: str) -> bool:
        raise StoreError("the disk is full")

    monkeypatch.setattr(CoordinatorLog, "keep", fail)
    assert run_night(store) == 0
    assert "the log of this run is not kept: the disk is full" in capsys.readouterr().err


def show(store: Store, capsys: Lines) -> tuple[str, str]:
    capsys.readouterr()
    assert NIGHTLY.run(["show", "--store", store.url, "--date", NIGHT]) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_without_a_cell_show_prints_the_logs_of_the_night(
    store: Store, tmp_path: Path, capsys: Lines
) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))
    assert "no run of this night left a log" in show(store, capsys)[0]
    assert run_night(store) == 0
    shown, _ = show(store, capsys)
    assert shown.startswith(f"{NIGHT}: 1 cell, planned ")
    assert "not closed yet" in shown.splitlines()[0]
    assert re.search(r"^  log      night=2026-11-20/coordinators/\d{8}T\d{6}Z\.", shown, re.M)
    assert "· numpy: passed (" in shown


def test_a_log_that_cannot_be_read_is_named(
    store: Store, tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binary_checks.fleet.nights.coordinator_log.LARGEST_LOG", 3)
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))
    store.create(coordinator_log_name(NIGHT, "big"), b"four")
    assert "big.log: larger than 3 bytes" in show(store, capsys)[1]
