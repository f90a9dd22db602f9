"""`binary-checks nightly run`: what it runs, retries and leaves behind, and its exit codes."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.command.actions import NIGHTLY
from binary_checks.fleet.night import PlannedCell
from binary_checks.fleet.nights import open_host
from binary_checks.fleet.store import Store, closed_name, result_name
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import (
    NIGHT,
    begin_night,
    demand_heard,
    is_running,
    keep_plan,
    plan_cell,
    run_night,
    runs_of,
    states_of,
)

Lines = pytest.CaptureFixture[str]


def test_a_night_of_healthy_packages_ends_with_0(
    store: Store, tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no cells.toml is another than the plan's
    cells = plan_cell(tmp_path, "numpy", "exit 0"), plan_cell(tmp_path, "scipy", "accepted")
    keep_plan(store, *cells)
    assert run_night(store) == 0
    assert states_of(store) == {"numpy": ["passed"], "scipy": ["known"]}
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 cells"
    assert {re.sub(r"[\d.]+ s; \d", "N s; N", line) for line in lines[1:3]} == {
        "· numpy: passed (N s; N of 2)",
        "k scipy: known (N s; N of 2)",
    }
    assert re.fullmatch(r"2 cells: 1 passed, 1 known in \d+ s", lines[3])
    assert lines[4] == f"next: binary-checks nightly collect --date {NIGHT} --store {store.url}"


@pytest.mark.parametrize(
    ("does", "states", "status"),
    [
        (("exit 1",), ["failed"], 1),  # static: never again
        (("runtime", "exit 0"), ["failed", "passed"], 0),  # flaky: neither
        (("exit 6", "exit 6", "exit 0"), ["infra", "infra", "passed"], 0),
        (("exit 6",), ["infra", "infra", "infra"], 6),
        (("signal 9", "exit 1"), ["lost", "failed"], 1),
        (("runtime", "exit 6", "runtime"), ["failed", "infra", "failed"], 1),
        (("unjudged 0",), ["not judged"], 0),  # which the profile accepts
    ],
)
def test_what_is_tried_again(
    store: Store, tmp_path: Path, does: tuple[str, ...], states: list[str], status: int
) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", *does))
    assert run_night(store) == status
    assert states_of(store) == {"numpy": states}


def test_what_the_plan_has_decided_is_not_run(store: Store, tmp_path: Path, capsys: Lines) -> None:
    keep_plan(
        store,
        PlannedCell(
            cell=plan_cell(tmp_path, "numpy", "").cell,
            state=CellState.MISSING,
            reason="no wheel for 3.15",
        ),
    )
    assert run_night(store) == 6
    assert (
        "\N{EN DASH} numpy: missing: no wheel for 3.15 (0.0 s; 1 of 1)" in capsys.readouterr().out
    )
    assert states_of(store) == {}


def test_a_pause_holds_up_no_other_cell(store: Store, tmp_path: Path) -> None:
    slow = plan_cell(tmp_path, "a-slow", "exit 6", "exit 0")
    others = [plan_cell(tmp_path, f"b{number}", "exit 0") for number in range(3)]
    keep_plan(store, slow, *others)
    assert run_night(store, "-j", "1", "--pause", "1") == 0
    last = max(Path(f"{each.cell.package}.runs").stat().st_mtime for each in others)
    assert Path(f"{slow.cell.package}.runs").stat().st_mtime > last


def test_a_night_that_is_gone_on_with_runs_what_lacks_a_result_and_nothing_else(
    store: Store, tmp_path: Path, capsys: Lines
) -> None:
    """Futures and memories count for nothing: documents do."""
    cells = [plan_cell(tmp_path, f"c{number}", "exit 0") for number in range(6)]
    keep_plan(store, *cells)
    assert run_night(store, "--shard", "1/2") == 0
    assert run_night(store, "--where", "id=c1") == 0
    assert [len(runs_of(each)) for each in cells] == [1, 1, 1, 0, 1, 0]
    capsys.readouterr()
    assert run_night(store) == 0
    assert "6 cells, 4 of them started before" in capsys.readouterr().out
    assert [len(runs_of(each)) for each in cells] == [1] * 6
    assert run_night(store) == 0
    assert [len(runs_of(each)) for each in cells] == [1] * 6
    store.delete(result_name(NIGHT, "c1", "cpu", 1))
    assert run_night(store) == 0
    assert [len(runs_of(each)) for each in cells] == [1, 2, 1, 1, 1, 1]


def test_of_a_tier_only_the_cells_that_cover_are_run(store: Store, tmp_path: Path) -> None:
    planned = [plan_cell(tmp_path, f"c{number}", "exit 0") for number in range(3)]
    pythons = ("3.12", "3.12", "3.13")
    cells = [
        replace(each, cell=replace(each.cell, project="numpy", python=python))
        for each, python in zip(planned, pythons, strict=True)
    ]
    keep_plan(store, *cells)
    assert run_night(store, "--tier", "pr") == 0
    assert [len(runs_of(each)) for each in cells] == [1, 0, 1]


def test_a_document_that_cannot_be_read_is_a_lost_attempt(store: Store, tmp_path: Path) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))
    store.create(result_name(NIGHT, "numpy", "cpu", 1), b'{"schema": "binary-checks/attempt/9"}')
    assert run_night(store) == 0
    assert states_of(store) == {"numpy": ["lost", "passed"]}


# The GPU stage


def test_the_gpu_stage_follows_a_pass_on_the_same_bytes(store: Store, tmp_path: Path) -> None:
    cells = (
        plan_cell(tmp_path, "good", "exit 0", gpu=True),
        plan_cell(tmp_path, "bad", "exit 1", gpu=True),
        plan_cell(tmp_path, "none", "exit 0"),
    )
    keep_plan(store, *cells)
    assert run_night(store, "--gpus", "1") == 1
    assert states_of(store) == {
        "good": ["passed", "passed"],
        "bad": ["failed"],
        "none": ["passed"],
    }
    assert run_night(store, "--gpus", "1") == 1
    assert len(runs_of(cells[1])) == 1


def test_a_host_without_a_gpu_leaves_that_stage_to_another(
    store: Store, tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    keep_plan(store, plan_cell(tmp_path, "good", "exit 0", gpu=True))
    assert run_night(store) == 0
    assert "for a host with a GPU (--queue gpu): 1 GPU stage" in capsys.readouterr().out
    assert run_night(store, "--queue", "gpu") == 4
    assert "no GPU was found on this host" in capsys.readouterr().err
    assert run_night(store, "--queue", "gpu", "--gpus", "1") == 0
    assert states_of(store) == {"good": ["passed", "passed"]}


def test_a_gpu_host_that_comes_too_early_runs_nothing_and_comes_again(
    store: Store, tmp_path: Path
) -> None:
    keep_plan(store, plan_cell(tmp_path, "good", "exit 0", gpu=True))
    assert run_night(store, "--queue", "gpu", "--gpus", "1") == 6
    assert states_of(store) == {}
    assert run_night(store, "--queue", "cpu") == 0
    assert run_night(store, "--queue", "gpu", "--gpus", "1") == 0
    assert states_of(store) == {"good": ["passed", "passed"]}


# Two coordinators, and coordinators that are killed


def wait_for(store: Store, prefix: str, count: int = 1) -> None:
    end = time.monotonic() + 30
    while len(list(store.names(prefix))) < count:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_coordinators_share_the_work_and_nothing_counts_twice(
    store: Store, tmp_path: Path
) -> None:
    cells = [plan_cell(tmp_path, f"c{number}", "sleep 1") for number in range(4)]
    keep_plan(store, *cells)
    with begin_night(store, "-j", "1") as first:
        while not any(map(runs_of, cells)):
            time.sleep(0.02)
        assert run_night(store, "-j", "1") == 0
        first.communicate(timeout=60)
    assert first.returncode == 0
    assert states_of(store) == {f"c{number}": ["passed"] for number in range(4)}
    assert sum(len(runs_of(each)) for each in cells) < 8


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_after_a_coordinator_was_killed_nothing_runs_and_the_next_removes_its_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    slow = plan_cell(tmp_path, "slow", "sleep 60", "exit 0")
    keep_plan(store, plan_cell(tmp_path, "a", "exit 0"), slow)
    with begin_night(store) as first:
        wait_for(store, f"night={NIGHT}/results/")
        while not runs_of(slow):
            time.sleep(0.02)
        first.kill()
        first.wait()
    (left,) = temporary.glob("binary-checks-night-*")
    orphan = int(runs_of(slow)[0].split()[0])
    end = time.monotonic() + 10
    while is_running(orphan):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert run_night(store) == 0
    assert states_of(store) == {"a": ["passed"], "slow": ["passed"]}
    assert not left.exists()
    assert [*temporary.glob("binary-checks-night-*")] == []


def test_the_folder_of_a_night_that_runs_is_left_alone(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with open_host(0) as first, open_host(0) as second:
        assert first.folder != second.folder
        assert Path(first.folder).is_dir()
        assert Path(second.folder).is_dir()
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_in_order_and_leaves_nothing_running(
    store: Store, tmp_path: Path, name: str
) -> None:
    number = getattr(signal, name)
    demand_heard(number)
    slow = plan_cell(tmp_path, "slow", "sleep 60")
    keep_plan(store, slow)
    with begin_night(store) as night:
        while not runs_of(slow):
            time.sleep(0.02)
        night.send_signal(number)
        out, _ = night.communicate(timeout=30)
    assert night.returncode == 2
    assert "1 cell: 1 not run yet in " in out
    assert "interrupted; to continue: binary-checks nightly run --date" in out
    assert not is_running(int(runs_of(slow)[0].split()[0]))
    assert [*store.names(f"night={NIGHT}/running/")] == []


def test_a_second_signal_ends_it_at_once(store: Store, tmp_path: Path) -> None:
    demand_heard(signal.SIGINT)
    keep_plan(store, plan_cell(tmp_path, "slow", "ignore 60"))
    with begin_night(store) as first:
        wait_for(store, f"night={NIGHT}/running/")
        time.sleep(0.2)
        first.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert first.poll() is None
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=5)
    assert first.returncode == 2
    assert states_of(store) == {}


# Usage


def test_the_help_says_what_each_action_does(capsys: Lines) -> None:
    assert NIGHTLY.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if line.startswith("  ")} == NIGHTLY.actions.keys()


def test_a_closed_night_does_not_change(store: Store, tmp_path: Path, capsys: Lines) -> None:
    keep_plan(store, plan_cell(tmp_path, "a", "exit 0"))
    store.create(closed_name(NIGHT), b"{}")
    assert run_night(store) == 4
    assert f"{NIGHT} is closed and cannot change" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--date", "yesterday"], "--date 'yesterday': not a date"),
        (["--cell", "nmpy"], "nmpy"),
        (["--where", "project=nmpy"], "--where 'project=nmpy' matches no cell"),
        (["--shard", "3/2"], "--shard: 3/2: not I/N"),
        (["--engine", "slurm"], "--engine slurm: neither local nor dask:ADDRESS"),
        (["-j", "0"], "nightly run: argument -j/--jobs: '0' is not a number of 1 or more"),
        (["--gpus", "two"], "nightly run: argument --gpus: 'two' is not a number of 1 or more"),
    ],
)
def test_a_wrong_option_is_one_line(
    store: Store, tmp_path: Path, capsys: Lines, options: list[str], complaint: str
) -> None:
    keep_plan(store, plan_cell(tmp_path, "numpy", "exit 0"))
    assert run_night(store, *options) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_a_night_knows_what_was_not_judged_and_tries_it_once(
    store: Store, tmp_path: Path, capsys: Lines
) -> None:
    refused = plan_cell(tmp_path, "ios", "unjudged 1", gpu=True)
    accepted = plan_cell(tmp_path, "android", "unjudged 0")
    keep_plan(store, refused, accepted, plan_cell(tmp_path, "linux", "exit 0"))
    assert run_night(store) == 1
    assert states_of(store) == {
        "ios": ["not judged"],
        "android": ["not judged"],
        "linux": ["passed"],
    }
    out = capsys.readouterr().out
    assert "? ios: not judged: the loader of iOS is not simulated" in out
    assert "1 passed, 2 not judged" in out
