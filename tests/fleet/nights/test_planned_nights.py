"""A night from the matrix on: planned once, then run with `binary-checks` itself."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from binary_checks.command.actions import NIGHTLY
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.nights import read_attempts
from binary_checks.fleet.store import Store, closed_name, frozen_name
from binary_checks.fleet.stored_nights import find_plan, keep_plan, name_log
from tests.fleet.nights.night_cells import NIGHT, plan_cell, plan_night, states_of

WHEELS = Path(__file__).parents[3] / "fixtures" / "samples" / "wheels"
MATRIX = """
[sources.local]
folder = "dist"

[[cells]]
project = ["demo", "demo_broken", "absent"]
system = "linux-x86_64"
python = "3.11"
source = "local"

[[run]]
when = "project=*"
options = ["--static"]
"""
Lines = pytest.CaptureFixture[str]


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    shutil.copytree(WHEELS, tmp_path / "dist")
    path = tmp_path / "cells.toml"
    path.write_text(MATRIX, encoding="utf-8")
    return path


def nightly(matrix: Path, store: Store, *options: str) -> int:
    command = ["run", str(matrix), "--store", store.url, "--date", NIGHT, "--no-collect"]
    return NIGHTLY.run([*command, *options])


@pytest.mark.slow
def test_the_next_night_keeps_no_facts_twice(store: Store, matrix: Path) -> None:
    options = "--cell", "demo-linux-x86_64-3.11-local"
    assert nightly(matrix, store, *options) == 0
    assert nightly(matrix, store, *options, "--date", "2026-11-21") == 0
    results = [each.name for each in store.names("night=2026-11-21/results/")]
    document = json.loads(store.read(results[0]) or b"")
    assert document["facts"] == document["sha256"]
    assert "facts:facts.json" not in document["command"]
    assert len([*store.names("facts/")]) == 1


def test_planning_alone_runs_nothing_and_the_plan_stands_whatever_becomes_of_the_matrix(
    store: Store, matrix: Path, capsys: Lines
) -> None:
    assert nightly(matrix, store, "--plan-only") == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"planning {NIGHT}: 3 cells",
        f"{NIGHT} is planned: 3 cells, store {store.url}",
    ]
    assert states_of(store) == {}
    before = find_plan(store, NIGHT)
    matrix.write_text(MATRIX.replace("absent", "other"), encoding="utf-8")
    assert nightly(matrix, store, "--plan-only") == 0
    assert (
        f"cells.toml differs from the matrix with which {NIGHT} was planned"
        in capsys.readouterr().out
    )
    assert find_plan(store, NIGHT) == before


def test_a_night_without_its_known_problems_says_so(
    store: Store, matrix: Path, capsys: Lines
) -> None:
    matrix.write_text(f'[night]\nknown_problems = "gone.toml"\n{MATRIX}', encoding="utf-8")
    assert nightly(matrix, store, "--plan-only") == 0
    said = "no problem counts as known this night: known list unavailable: gone.toml: No such file"
    assert said in capsys.readouterr().out


def test_without_a_matrix_there_is_no_night_and_no_trace_of_one(
    store: Store, tmp_path: Path, capsys: Lines
) -> None:
    assert nightly(tmp_path / "cells.toml", store) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "cells.toml" in line
    assert [*store.names("night=")] == []


def test_of_many_that_plan_at_once_one_wins_and_all_run_its_plan(
    store: Store, tmp_path: Path
) -> None:
    together, found = threading.Barrier(8), list[NightPlan]()

    def plan(number: int) -> None:
        mine = plan_night(plan_cell(tmp_path, f"c{number}", "exit 0"))
        together.wait()
        found.append(keep_plan(store, mine, {f"{number:064}": b"frozen"}))

    threads = [threading.Thread(target=plan, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.cells[0].cell.id for each in found}) == 1
    winner = int(found[0].cells[0].cell.id[1:])
    assert store.read(frozen_name(NIGHT, f"{winner:064}")) == b"frozen"


def test_only_a_new_night_has_cells_that_are_left_out_and_it_names_the_one_that_is_open(
    store: Store, matrix: Path, capsys: Lines
) -> None:
    rule = '[[leave_out]]\nwhen = "project=absent"\nreason = "not yet"\n'
    matrix.write_text(MATRIX + rule, encoding="utf-8")
    assert nightly(matrix, store, "--plan-only") == 0
    also = ("--plan-only", "--also", "project=absent")
    assert nightly(matrix, store, *also) == 4
    printed = capsys.readouterr()
    assert "--also 'project=absent' matches no cell" in printed.err
    assert printed.out.endswith(f"2 cells, store {store.url}\n")
    assert NIGHTLY.run(["run", str(matrix), "--store", store.url, *also]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == f"{NIGHT} is not closed; to continue it: --date {NIGHT}"
    assert last.endswith(f"3 cells, store {store.url}")


def test_a_whole_night_judges_as_the_command_does_and_ends_with_its_tables_and_its_summary(
    store: Store, matrix: Path, capsys: Lines
) -> None:
    pytest.importorskip("duckdb")
    command = ["run", str(matrix), "--store", store.url, "--date", NIGHT]
    assert NIGHTLY.run([*command, "--cell", "demo-linux-x86_64-3.11-local"]) == 0
    assert f"next: binary-checks nightly collect --date {NIGHT}" in capsys.readouterr().out
    assert NIGHTLY.run(command) == 1
    assert states_of(store) == {
        "demo-linux-x86_64-3.11-local": ["passed"],
        "demo_broken-linux-x86_64-3.11-local": ["failed"],
    }
    out = capsys.readouterr().out
    assert "3 cells: 1 passed, 1 failed, 1 missing in " in out
    assert "\N{EN DASH} absent-linux-x86_64-3.11-local: missing: " in out
    assert f"{NIGHT}: closed; 1 passed, 1 failed, 1 missing" in out
    assert "next: " not in out
    assert "executable-stack" in out[out.index("closed;") :]
    assert store.read(closed_name(NIGHT)) is not None
    plan = find_plan(store, NIGHT)
    assert plan is not None
    cells = {each.cell.id: each for each in plan.cells}
    passed, failed = read_attempts(store, NIGHT, cells)
    assert failed.cause == "executable-stack"
    assert (failed.cause_kind, failed.exit_status, failed.again) == ("product", 1, False)
    assert passed.facts == passed.sha256 == cells[passed.cell].sha256
    assert len([*store.names("facts/")]) == 2
    log = store.read(name_log(failed)) or b""
    assert b"executable-stack: demo_broken-1.0-" in log
