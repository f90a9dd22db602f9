"""Cells of a night whose packages are texts that tell a stand-in for the command what to do."""

from __future__ import annotations

import hashlib
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fixtures
from binary_checks.command.actions import NIGHTLY
from binary_checks.fleet.night import Cell, NightPlan, PlannedCell
from binary_checks.fleet.nights import read_attempts
from binary_checks.fleet.store import Store, plan_name
from binary_checks.fleet.stored_nights import read_plan, write_plan

STAND_IN = (sys.executable, "-S", str(Path(fixtures.__file__).parent / "fleet" / "stand_in.py"))
NIGHT = "2026-11-20"


def plan_cell(
    folder: Path, name: str, *does: str, timeout: float = 60.0, gpu: bool = False
) -> PlannedCell:
    """A cell whose package says so, a line an attempt."""
    package = folder / f"{name}.txt"
    package.write_text("\n".join(does), encoding="utf-8")
    return PlannedCell(
        cell=Cell(id=name, project=name, package=str(package), timeout=timeout, gpu=gpu),
        file_name=package.name,
        url=package.as_uri(),
        sha256=hashlib.sha256(package.read_bytes()).hexdigest(),
    )


def runs_of(planned: PlannedCell) -> list[str]:
    """What each run of the stand-in on the cell's package was called with."""
    runs = Path(f"{planned.cell.package}.runs")
    return runs.read_text(encoding="utf-8").splitlines() if runs.exists() else []


def demand_heard(number: signal.Signals) -> None:
    """Skip the test of a signal that programs started here do not hear."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever runs the tests ignores that signal, as nohup does")


def is_running(pid: int) -> bool:
    """Whether there is such a process, and no zombie of it alone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def plan_night(*cells: PlannedCell, night: str = NIGHT) -> NightPlan:
    """A plan of these cells."""
    return NightPlan(
        night=night, made=f"{night}T01:00:00+00:00", cells_sha256="0" * 64, cells=tuple(cells)
    )


def keep_plan(store: Store, *cells: PlannedCell, night: str = NIGHT) -> NightPlan:
    """Plan a night of these cells."""
    plan = plan_night(*cells, night=night)
    assert store.create(plan_name(night), write_plan(plan))
    return plan


def run_night(store: Store, *options: str, night: str = NIGHT) -> int:
    """Run the command in this process, with the stand-in and without pauses."""
    program = ("--program", shlex.join(STAND_IN), "--pause", "0")
    command = ["run", "--store", store.url, "--date", night, "--no-collect"]
    return NIGHTLY.run([*command, *program, *options])


def begin_night(store: Store, *options: str, night: str = NIGHT) -> subprocess.Popen[str]:
    """Start the command as a process of its own."""
    program = ("--program", shlex.join(STAND_IN), "--pause", "0")
    command = (sys.executable, "-m", "binary_checks", "nightly", "run", "--store", store.url)
    return subprocess.Popen(
        [*command, "--date", night, "--no-collect", *program, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def states_of(store: Store, night: str = NIGHT) -> dict[str, list[str]]:
    """The states of all attempts by cell, in order."""
    found: dict[str, list[str]] = {}
    cells = {each.cell.id: each for each in read_night_plan(store, night).cells}
    for attempt in read_attempts(store, night, cells):
        found.setdefault(attempt.cell, []).append(attempt.state.value)
    return found


def read_night_plan(store: Store, night: str = NIGHT) -> NightPlan:
    """The plan as the store has it."""
    content = store.read(plan_name(night))
    assert content is not None
    return read_plan(content, night)
