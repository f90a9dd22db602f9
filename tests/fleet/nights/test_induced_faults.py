"""Nights with induced faults end in the right state."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from binary_checks.fleet.night import Attempt, PlannedCell, final_state
from binary_checks.fleet.nights import attempting, read_attempts
from binary_checks.fleet.store import Store, open_store
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import (
    NIGHT,
    STAND_IN,
    keep_plan,
    plan_cell,
    run_night,
    states_of,
)

OUT_OF_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
bytearray(1 << 34)
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs, or limits of Linux")


def attempts_of(store: Store, planned: PlannedCell) -> list[Attempt]:
    return read_attempts(store, NIGHT, {planned.cell.id: planned})


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own; skip where nothing can be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk))
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(("umount", "-l", disk), check=True)


@pytest.mark.parametrize(
    ("does", "state", "causes"),
    [
        (["signal 11"], CellState.LOST, ["tool-crashed"] * 3),
        (["signal 11", "exit 0"], CellState.PASSED, ["tool-crashed", ""]),
        (["signal 9", "exit 0"], CellState.PASSED, ["killed", ""]),
        (["corrupt", "exit 0"], CellState.PASSED, ["unknown", ""]),
        (["corrupt"], CellState.LOST, ["unknown"] * 3),
        (["child", "exit 0"], CellState.PASSED, ["killed", ""]),
    ],
)
def test_a_process_that_dies_or_leaves_rubbish_is_lost_and_tried_again(
    store: Store, tmp_path: Path, does: list[str], state: CellState, causes: list[str]
) -> None:
    planned = plan_cell(tmp_path, "numpy", *does)
    keep_plan(store, planned)
    assert run_night(store) == (0 if state is CellState.PASSED else 6)
    attempts = attempts_of(store, planned)
    assert [each.cause for each in attempts] == causes
    assert final_state(planned, attempts).state is state


@on_linux
def test_want_of_memory_is_named_and_never_the_packages_fault(store: Store, tmp_path: Path) -> None:
    planned = plan_cell(tmp_path, "numpy", "exit 0")
    keep_plan(store, planned)
    hog = shlex.join((sys.executable, "-S", "-c", OUT_OF_MEMORY))
    assert run_night(store, "--program", hog) == 6
    attempts = attempts_of(store, planned)
    assert [(each.state, each.cause, each.cause_kind) for each in attempts] == [
        (CellState.LOST, "out-of-memory", "unknown")
    ] * 3


@on_linux
def test_a_full_disk_under_an_attempt_loses_that_attempt_alone(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan_cell(tmp_path, "numpy", "fill 900000", "exit 0")
    keep_plan(store, planned)
    with small_disk(tmp_path, "256k") as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        monkeypatch.setattr("tempfile.tempdir", None)
        assert run_night(store) == 0
    monkeypatch.setattr("tempfile.tempdir", None)
    attempts = attempts_of(store, planned)
    assert [each.state for each in attempts] == [CellState.LOST, CellState.PASSED]


@on_linux
def test_a_full_disk_under_the_store_ends_the_night_in_order_and_it_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempting, "time", SimpleNamespace(sleep=lambda seconds: None))
    cells = [plan_cell(tmp_path, name, "exit 0") for name in ("numpy", "scipy")]
    with small_disk(tmp_path, "128k") as disk:
        filling = tmp_path / "fill.sh"
        filling.write_text(f'cat /dev/zero > {disk}/filler\nexec {shlex.join(STAND_IN)} "$@"\n')
        store = open_store(str(disk / "store"), make=True)
        keep_plan(store, *cells)
        assert run_night(store, "-j", "1", "--program", f"sh {filling}") == 6
        assert "cannot be written: No space left on device" in capsys.readouterr().out
        (disk / "filler").unlink()
        assert run_night(store) == 0
        assert states_of(store) == {"numpy": ["passed"], "scipy": ["passed"]}


def test_a_night_that_midnight_passes_stays_the_night_that_it_was(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(("2026-11-20T23:59:59+00:00", *["2026-11-21T00:00:01+00:00"] * 99))
    monkeypatch.setattr(attempting, "now", lambda: next(clock))
    cells = [plan_cell(tmp_path, name, "exit 0") for name in ("numpy", "scipy")]
    keep_plan(store, *cells)
    assert run_night(store, "-j", "1") == 0
    assert states_of(store) == {"numpy": ["passed"], "scipy": ["passed"]}
    assert list(store.folders("")) == [f"night={NIGHT}/"]


def test_a_clock_that_goes_back_changes_no_order_and_no_state(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = iter(range(23, -1, -1))
    monkeypatch.setattr(attempting, "now", lambda: f"2026-11-20T{next(hours):02}:00:00+00:00")
    planned = plan_cell(tmp_path, "numpy", "runtime", "exit 0")
    keep_plan(store, planned)
    assert run_night(store) == 0
    attempts = attempts_of(store, planned)
    assert attempts[0].started > attempts[1].started
    assert min(each.seconds for each in attempts) > 0
    assert final_state(planned, attempts).state is CellState.FLAKY
