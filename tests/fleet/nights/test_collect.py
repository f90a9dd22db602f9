from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.nights import read_closed
from binary_checks.fleet.store import closed_name, open_store, plan_name, table_name
from binary_checks.model import CellState
from fixtures.fleet.nights import make_nights
from tests.fleet.nights.test_merging import NIGHT, PLAN, attempt, fill, job, plan_night

pytest.importorskip("duckdb")


def collect(store: Path, *options: str) -> int:
    return main(["nightly", "collect", "--store", str(store), *options])


def test_a_night_of_two_jobs_is_collected_and_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_night(job(tmp_path, "store"))
    fill(job(tmp_path / "jobs", "a"), attempt("one"))
    fill(
        job(tmp_path / "jobs", "b"),
        attempt("two", state=CellState.INFRA, exit_status=6, result=None),
    )
    assert collect(tmp_path / "store", "--from", str(tmp_path / "jobs")) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{NIGHT}: 2 results merged",
        f"{NIGHT}: closed; 1 passed, 1 infra",
    ]
    store = open_store(str(tmp_path / "store"))
    closed = read_closed(store, NIGHT)
    assert closed is not None
    assert closed.complaints == ()
    assert store.read(table_name(NIGHT, "cells")) is not None


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("date", [(), ("--date", NIGHT)])
def test_what_is_no_store_or_has_no_plan_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], date: tuple[str, ...], merges: bool
) -> None:
    fill(job(tmp_path / "jobs", "a"), attempt("one"), attempt("two"))
    folders = ("--from", str(tmp_path / "jobs")) if merges else ()
    assert collect(tmp_path / "store", *folders, *date) == 6
    assert "not a store" in capsys.readouterr().err
    job(tmp_path, "store")
    assert collect(tmp_path / "store", *folders, *date) == 6
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no night " in said or "no nights yet" in said
    assert [each.name for each in open_store(str(tmp_path / "store")).names("night=")] == []
    assert collect(tmp_path / "store", *folders, "--date", "yesterday") == 4
    assert "not a date" in capsys.readouterr().err


def test_a_closed_night_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(job(tmp_path, "store"), attempt("one"), attempt("two"))
    assert collect(tmp_path / "store") == 0
    fill(job(tmp_path, "late"), attempt("one", 2))
    capsys.readouterr()
    assert collect(tmp_path / "store", "--from", str(tmp_path / "late")) == 0
    assert "closed already" in capsys.readouterr().out
    results = [each.name for each in open_store(str(tmp_path / "store")).names("night=")]
    assert not any("cpu2" in name for name in results)


def test_a_night_that_still_runs_stays_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = job(tmp_path, "store")
    fill(store, attempt("one"))
    assert collect(tmp_path / "store") == 1
    assert "1 of 2 cells have no result yet (two)" in capsys.readouterr().err
    assert store.read(closed_name(NIGHT)) is None
    assert collect(tmp_path / "store", "--close") == 0
    assert capsys.readouterr().out == f"{NIGHT}: closed; 1 passed, 1 lost\n"


def test_a_gpu_stage_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = tuple(replace(each, cell=replace(each.cell, gpu=True)) for each in PLAN.cells)
    plan = replace(PLAN, cells=cells)
    store = job(tmp_path, "store")
    failed = attempt("two", state=CellState.FAILED, exit_status=4, result=None)
    fill(store, attempt("one"), failed, plan=plan)
    assert collect(tmp_path / "store") == 1
    assert "1 of 2 cells have no result yet (one)" in capsys.readouterr().err
    fill(store, attempt("one", stage="gpu"), plan=plan)
    assert collect(tmp_path / "store") == 0


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": "binary-checks/plan/9", "night": "2026-11-20"}']
)
def test_a_night_without_a_plan_that_can_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    job(tmp_path, "store").create(plan_name(NIGHT), content)
    assert collect(tmp_path / "store") == 6
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "plan.json" in said


def test_collecting_a_synthetic_night_again_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_nights(tmp_path / "store", cells=6, nights=2, tables=False)
    for night in made.nights:
        assert collect(made.folder, "--date", night, "--close") == 0
        counts = re.findall(r"(\d+) [a-z]", capsys.readouterr().out.partition("closed; ")[2])
        assert sum(map(int, counts)) == len(made.cells)
