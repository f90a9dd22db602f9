"""One attempt: its state, and what the store has afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.night import GPU, Attempt, Cell, PlannedCell
from binary_checks.fleet.nights import (
    AttemptTask,
    StoppedError,
    StopRequest,
    find_attempt,
    run_attempt,
)
from binary_checks.fleet.store import Store, frozen_name, result_name
from binary_checks.fleet.stored_nights import name_log
from binary_checks.model import CellState
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE
from fixtures.gpu.driver import make_driver
from fixtures.slow import slow
from tests.fleet.nights.night_cells import (
    NIGHT,
    STAND_IN,
    is_running,
    plan_cell,
    plan_night,
    runs_of,
)


def make_task(store: Store, folder: Path, *does: str, timeout: float = 60.0) -> AttemptTask:
    planned = plan_cell(folder, "numpy-3.12", *does, timeout=timeout)
    return AttemptTask(
        plan=plan_night(),
        planned=planned,
        program=STAND_IN,
        pauses=(),
    )


def names(store: Store) -> list[str]:
    return [each.name for each in store.names(f"night={NIGHT}/")]


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc") or bool(find_library("cuda")),
    reason="needs a C compiler, and a host without a driver",
)
@pytest.mark.parametrize(
    "case",
    [
        ({"init": "return 802;"}, "pass", CellState.INFRA, "gpu-unusable"),
        *slow(
            (({}, "raise RuntimeError('no kernel image')", CellState.FAILED, "gpu-work-fails"),),
            ((None, "pass", CellState.INFRA, "gpu-unusable"),),
            (({"version": "12000"}, "pass", CellState.INFRA, "driver-too-old"),),
        ),
    ],
)
def test_a_gpu_host_that_is_broken_is_infrastructure_and_tried_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]
) -> None:
    """The command, its probes and the loader are real; what answers as the driver is not."""
    driver, code, state, cause = case
    led = {} if driver is None else make_driver(tmp_path, **driver)
    monkeypatch.setenv("LD_LIBRARY_PATH", led.get("LD_LIBRARY_PATH", ""))
    profile = tmp_path / "gpu.toml"
    profile.write_text(
        f'[probes.cuda]\nversion = "demo.cuda"\n[probes.gpu]\nmodule = "demo"\n'
        f'snippets = {{ work = "{code}" }}\n'
    )
    package = build_wheel(tmp_path, members={"demo/__init__.py": "cuda = '13.0'\n"}, tags=PURE)
    cell = Cell(id="demo", project="demo", gpu=True, options=("--profile", str(profile)))
    sha256 = hashlib.sha256(package.read_bytes()).hexdigest()
    planned = PlannedCell(cell=cell, file_name=package.name, url=package.as_uri(), sha256=sha256)
    task = AttemptTask(plan=plan_night(), planned=planned, stage=GPU, pauses=())
    attempt = run_attempt(task, store)
    assert (attempt.state, attempt.cause, attempt.again) == (state, cause, True)
    assert attempt.exit_status == (6 if state is CellState.INFRA else 1)


@pytest.mark.parametrize(
    ("does", "state", "reason"),
    [
        ("exit 0", CellState.PASSED, ""),
        ("accepted", CellState.KNOWN, ""),
        ("exit 1", CellState.FAILED, ""),
        ("runtime", CellState.FAILED, ""),
        ("unjudged 0", CellState.NOT_JUDGED, "the loader of iOS is not simulated"),
        ("unjudged 1", CellState.NOT_JUDGED, "the loader of iOS is not simulated"),
        ("exit 3", CellState.FAILED, "missing-library: the index did not answer"),
        ("exit 6", CellState.INFRA, "missing-library: the index did not answer"),
        ("exit 2", CellState.LOST, "interrupted"),
        ("status 0", CellState.LOST, "no result, with exit code 0: result.json: cannot be read"),
        ("status 1", CellState.LOST, "no result, with exit code 1: result.json: cannot be read"),
        ("status 3", CellState.FAILED, "`binary-checks` failed: stand-in: status 3"),
        ("status 4", CellState.FAILED, "`binary-checks` rejected the cell's options: stand-in"),
        ("status 5", CellState.FAILED, "no check was selected"),
        ("status 6", CellState.INFRA, "stand-in: status 6"),
        (
            "status 77",
            CellState.LOST,
            "ended with status 0x4d, which `binary-checks` never returns",
        ),
        ("signal 9", CellState.LOST, "killed by SIGKILL"),
        ("signal 11", CellState.LOST, "a binary-checks process was ended by SIGSEGV"),
        ("corrupt", CellState.LOST, "no result, with exit code 0: result.json: not JSON"),
    ],
)
def test_how_the_process_ends_decides_the_state(
    store: Store, tmp_path: Path, does: str, state: CellState, reason: str
) -> None:
    task = make_task(store, tmp_path, does)
    attempt = run_attempt(task, store)
    assert (attempt.state, attempt.reason[: len(reason)]) == (state, reason)
    assert bool(attempt.reason) == bool(reason)
    log = name_log(attempt)
    folder = "succeeded" if state in (CellState.PASSED, CellState.KNOWN) else "failed"
    assert log.startswith(f"night={NIGHT}/{folder}/numpy-3.12.cpu1.")
    assert names(store) == sorted([log, result_name(NIGHT, "numpy-3.12", "cpu", 1)])
    assert hashlib.sha256(store.read(log) or b"").hexdigest() == attempt.log
    assert find_attempt(store, task) == attempt


def test_other_bytes_than_the_plan_has_are_no_verdict(store: Store, tmp_path: Path) -> None:
    task = make_task(store, tmp_path, "exit 0")
    Path(task.planned.cell.package).write_text("exit 0\n# another build\n", encoding="utf-8")
    attempt = run_attempt(task, store)
    assert attempt.state is CellState.INFRA
    assert attempt.reason.startswith("other bytes than planned: SHA-256 ")
    assert attempt.sha256 == task.planned.sha256


def test_the_time_limit_ends_it_with_all_that_it_started(store: Store, tmp_path: Path) -> None:
    attempt = run_attempt(make_task(store, tmp_path, "sleep 60", timeout=0.5), store)
    assert attempt.state is CellState.LOST
    assert (attempt.reason, attempt.cause) == ("killed at its time limit, after 1 s", "timed-out")
    assert not is_running(int(runs_of(make_task(store, tmp_path, "").planned)[0].split()[0]))


def test_a_child_in_a_session_of_its_own_does_not_outlive_a_killed_attempt(
    store: Store, tmp_path: Path
) -> None:
    before = children_that_sleep()
    attempt = run_attempt(make_task(store, tmp_path, "child"), store)
    assert attempt.reason.startswith("killed by SIGKILL")
    assert (attempt.exit_status, attempt.signal) == (None, 9)
    assert children_that_sleep() == before


def children_that_sleep() -> set[int]:
    found = set[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"time.sleep(60)" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def test_of_a_long_log_the_beginning_and_the_end_are_kept(store: Store, tmp_path: Path) -> None:
    log = store.read(name_log(run_attempt(make_task(store, tmp_path, "write 9000000"), store)))
    assert log is not None
    assert log.startswith(b"stand-in: write 9000000\n")
    assert b" bytes left out ...]\n" in log
    assert 2 << 20 < len(log) < (2 << 20) + 100


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_in_place_of_what_it_leaves_holds_nobody_up(store: Store, tmp_path: Path) -> None:
    script = tmp_path / "plant"
    script.write_text("echo hello; mkfifo result.json facts.json\n")
    task = replace(make_task(store, tmp_path, ""), program=("sh", str(script)))
    attempt = run_attempt(task, store)
    assert attempt.state is CellState.LOST
    assert attempt.reason == "no result, with exit code 0: result.json: not a regular file"


def test_an_attempt_is_run_once_and_has_the_figures_of_its_process(
    store: Store, tmp_path: Path
) -> None:
    task = make_task(store, tmp_path, "exit 1", "exit 0")
    assert pickle.loads(pickle.dumps(task)) == task  # a worker gets it
    attempt = run_attempt(task, store)
    assert 0 < attempt.cpu_seconds < 60
    assert attempt.peak_memory > 1 << 20
    assert attempt.exit_status == 1
    assert attempt.command[0] == "binary-checks"
    assert "json:result.json" in attempt.command
    assert run_attempt(task, store) == attempt
    assert len(runs_of(task.planned)) == 1


@pytest.mark.parametrize("at", ["/running/", ".log"])
def test_of_two_that_make_one_attempt_the_first_counts_with_its_own_log(
    store: Store, tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser runs or has run already, and finds the winner's document when it stores its own."""
    task = make_task(store, tmp_path, "exit 1")
    programs = [(sys.executable, "-c", f"print('the {who}')") for who in ("winner", "loser")]
    create, winner = store.create, list[Attempt]()

    def be_overtaken(name: str, content: bytes | Path) -> bool:
        if at in name:
            monkeypatch.setattr(store, "create", create)
            winner.append(run_attempt(replace(task, program=programs[0]), store))
        return create(name, content)

    monkeypatch.setattr(store, "create", be_overtaken)
    assert [run_attempt(replace(task, program=programs[1]), store)] == winner
    (log,) = (name for name in names(store) if name.endswith(".log"))
    assert (log, store.read(log)) == (name_log(winner[0]), b"the winner\n")


def test_a_document_that_cannot_be_read_is_a_lost_attempt(store: Store, tmp_path: Path) -> None:
    store.create(result_name(NIGHT, "numpy-3.12", "cpu", 1), b'{"schema": "binary-ch')
    attempt = run_attempt(make_task(store, tmp_path, "exit 0"), store)
    assert attempt.state is CellState.LOST
    assert "not JSON" in attempt.reason


def test_a_running_attempt_shows_itself_in_the_store(store: Store, tmp_path: Path) -> None:
    stop = StopRequest()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_attempt, make_task(store, tmp_path, "sleep 60"), store, stop)
        while not names(store):
            time.sleep(0.01)
        assert names(store) == [f"night={NIGHT}/running/numpy-3.12.cpu1.json"]
        stop.make()
        assert isinstance(running.exception(20), StoppedError)
    assert names(store) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no signal there says whether a process is")
def test_a_store_that_hangs_keeps_nothing_running(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, goes_on, pids = StopRequest(), threading.Event(), list[int]()
    create = store.create

    def hang(name: str, content: bytes | Path) -> bool:
        if "/running/" in name:
            assert isinstance(content, bytes)
            pids.append(json.loads(content)["pid"])
            assert goes_on.wait(30)
        return create(name, content)

    def runs() -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], 0)
            return True
        return False

    monkeypatch.setattr(store, "create", hang)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_attempt, make_task(store, tmp_path, "sleep 60"), store, stop)
        while not pids:
            time.sleep(0.01)
        assert runs()
        stop.make(at_once=True)
        while runs():
            time.sleep(0.01)
        assert not running.done()
        goes_on.set()
        assert isinstance(running.exception(20), StoppedError)
    assert names(store) == []


def test_what_was_frozen_with_the_plan_lies_in_the_folder(store: Store, tmp_path: Path) -> None:
    task = make_task(store, tmp_path, "exit 0")
    name = frozen_name(NIGHT, known := hashlib.sha256(b"# none").hexdigest())
    task = replace(task, plan=replace(task.plan, known_sha256=known), pauses=())
    with pytest.raises(
        StoreError, match=rf"frozen/{known}\.toml: missing, although the plan names it"
    ):
        run_attempt(task, store)
    store.create(name, b"# all")
    with pytest.raises(StoreError, match="its bytes differ from the frozen ones"):
        run_attempt(task, store)
    store.delete(name)
    store.create(name, b"# none")
    attempt = run_attempt(task, store)
    assert attempt.state is CellState.PASSED
    assert attempt.command[4:6] == ("--known-problems", "known.toml")


@pytest.mark.parametrize(
    ("does", "state"), [("exit 1", CellState.INFRA), ("exit 0", CellState.PASSED)]
)
def test_without_the_known_problems_a_failure_is_not_judged(
    store: Store, tmp_path: Path, does: str, state: CellState
) -> None:
    task = make_task(store, tmp_path, does)
    attempt = run_attempt(
        replace(task, plan=replace(task.plan, known_complaint="known list unavailable: gone")),
        store,
    )
    assert attempt.state is state
    if state is CellState.INFRA:
        assert attempt.reason == "known list unavailable: gone"
        assert not attempt.again


def test_a_cell_sees_no_credentials_of_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open sesame")
    script = tmp_path / "show.py"
    script.write_text("import os; print(sorted(os.environ))", encoding="utf-8")
    task = replace(make_task(store, tmp_path, ""), program=(STAND_IN[0], str(script)))
    log = store.read(name_log(run_attempt(task, store))) or b""
    assert b"'TMPDIR'" in log
    assert b"AWS_SECRET_ACCESS_KEY" not in log


@pytest.mark.parametrize("at_once", [False, True])
def test_stopping_ends_what_runs_and_what_begins_later(
    store: Store, tmp_path: Path, at_once: bool
) -> None:
    stop = StopRequest()
    stop.make(at_once=at_once)
    with pytest.raises(StoppedError):
        run_attempt(make_task(store, tmp_path, "sleep 60"), store, stop)
