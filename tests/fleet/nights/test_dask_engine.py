"""Nights on a real scheduler with real workers: one for CPU work, one that declares a GPU."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from binary_checks.command.actions import NIGHTLY
from binary_checks.errors import GatherError
from binary_checks.fleet.night import CPU, GPU
from binary_checks.fleet.nights import read_attempts
from binary_checks.fleet.store import Store, open_store
from tests.fleet.nights.night_cells import NIGHT, STAND_IN, keep_plan, plan_cell, run_night, runs_of

distributed = pytest.importorskip("distributed", reason="needs the extra dask")

from binary_checks.fleet.nights import dask_engine  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of distributed's own

PARENT = """
import os, pathlib, runpy, sys
cell = sys.argv[1].rpartition("/")[2].partition(".")[0]
with pathlib.Path(__file__).with_name(f"{cell}.parents").open("a") as file:
    file.write(f"{os.getppid()}\\n")
runpy.run_path(%r, run_name="__main__")
"""
"""Notes which worker started it, then stands in as the other one does."""


def start_cluster(**resources: dict[str, int]) -> Any:
    """A scheduler, and a worker of each name with these resources, each a process."""
    quiet = {"dashboard": False, "silence_logs": logging.CRITICAL}
    workers = {
        name: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 2, "resources": declared, **quiet},
        }
        for name, declared in resources.items()
    }
    options = {"dashboard_address": ":0", "port": 0, "host": "127.0.0.1"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    return distributed.SpecCluster(
        scheduler=scheduler, workers=workers, silence_logs=logging.CRITICAL
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with start_cluster(cpu={"CPU": 2}, gpu={"GPU": 1}) as started:
        yield started


def dask(cluster: Any) -> tuple[str, str]:
    return "--engine", f"dask:{cluster.scheduler_address}"


def processes(cluster: Any) -> dict[str, int]:
    """The workers' processes by name."""
    return {name: nanny.process.pid for name, nanny in cluster.workers.items()}


def kept(store: Store, *cells: Any) -> dict[str, list[tuple[str, str, int]]]:
    """State, stage and number of all attempts, by cell."""
    found: dict[str, list[tuple[str, str, int]]] = {each.cell.id: [] for each in cells}
    for attempt in read_attempts(store, NIGHT, {each.cell.id: each for each in cells}):
        row = (attempt.state.value, attempt.stage, attempt.number)
        found[attempt.cell].append(row)
    return found


@contextmanager
def once_any_runs(cells: Sequence[Any], act: Callable[[], object]) -> Iterator[None]:
    """Do that once one of the cells runs, while the body runs them."""

    def wait() -> None:
        while not any(map(runs_of, cells)):
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def test_a_night_on_workers_comes_to_the_same_as_one_here(cluster: Any, tmp_path: Path) -> None:
    ends = []
    for where in ((), dask(cluster)):
        folder = tmp_path / f"{len(ends)}"
        folder.mkdir()
        store = open_store(str(folder / "store"), make=True)
        does = {"a": ["exit 0"], "b": ["exit 1"], "c": ["signal 9", "exit 0"], "d": ["accepted"]}
        cells = [plan_cell(folder, name, *lines) for name, lines in does.items()]
        keep_plan(store, *cells)
        status = run_night(store, *where)
        ends.append((status, kept(store, *cells), [len(runs_of(each)) for each in cells]))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1


def test_gpu_stages_run_on_the_worker_with_the_gpu_alone_and_no_other_does(
    cluster: Any, store: Store, tmp_path: Path
) -> None:
    wrapper = tmp_path / "parent.py"
    wrapper.write_text(PARENT % STAND_IN[-1])
    cells = [plan_cell(tmp_path, f"c{number}", "exit 0", gpu=True) for number in range(4)]
    keep_plan(store, *cells)
    program = f"{sys.executable} -S {wrapper}"
    assert run_night(store, *dask(cluster), "--program", program) == 0
    known = {str(pid): name for name, pid in processes(cluster).items()}
    seen = [(tmp_path / f"{each.cell.id}.parents").read_text().split() for each in cells]
    assert [[known[pid] for pid in pids] for pids in seen] == [["cpu", "gpu"]] * 4
    assert {name: len(rows) for name, rows in kept(store, *cells).items()} == dict.fromkeys(
        ("c0", "c1", "c2", "c3"), 2
    )


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_cell_and_no_cell_counts_twice(
    cluster: Any, store: Store, tmp_path: Path
) -> None:
    cells = [plan_cell(tmp_path, f"c{number}", "sleep 1") for number in range(4)]
    keep_plan(store, *cells)
    with once_any_runs(cells, lambda: os.kill(processes(cluster)["cpu"], signal.SIGKILL)):
        assert run_night(store, *dask(cluster)) == 0
    assert kept(store, *cells) == {f"c{n}": [("passed", CPU, 1)] for n in range(4)}
    assert sum(len(runs_of(each)) for each in cells) > 4


def test_a_night_that_is_ended_ends_what_runs_on_workers(
    cluster: Any, store: Store, tmp_path: Path
) -> None:
    cell = plan_cell(tmp_path, "numpy", "sleep 600")
    keep_plan(store, cell)
    with once_any_runs([cell], lambda: os.kill(os.getpid(), signal.SIGTERM)):
        assert run_night(store, *dask(cluster)) == 2
    assert kept(store, cell) == {"numpy": []}


def test_a_store_that_workers_do_not_have_is_one_line(cluster: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    opened = dask_engine.open_dask(cluster.scheduler_address, str(elsewhere))
    with pytest.raises(GatherError) as refused, opened:
        pass
    assert f"{refused.value}".startswith(
        f"dask:{cluster.scheduler_address}: worker tcp://127.0.0.1:"
    )
    assert str(elsewhere) in str(refused.value)


def test_no_scheduler_is_one_line_and_try_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(dask_engine, "_CONNECT", 0.3)
    keep_plan(store)
    assert run_night(store, "--engine", "dask:tcp://127.0.0.1:9") == 6
    assert capfd.readouterr().err == (
        "binary-checks: dask:tcp://127.0.0.1:9: no scheduler answers: "
        "Timed out trying to connect to tcp://127.0.0.1:9 after 0.3 s\n"
    )


@pytest.mark.parametrize("address", ["nowhere://127.0.0.1:9", "tcp://[::1", ""])
def test_no_address_is_misuse(store: Store, address: str, capfd: Any) -> None:
    keep_plan(store)
    assert run_night(store, "--engine", f"dask:{address}") == 4
    said = capfd.readouterr().err
    assert said.startswith(f"binary-checks: --engine dask:{address}: ")
    assert said.count("\n") == 1


def test_without_distributed_the_extra_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, dask_engine.__name__)
    keep_plan(store)
    assert (
        NIGHTLY.run(["run", "--store", store.url, "--date", NIGHT, "--engine", "dask:tcp://a:1"])
        == 4
    )
    assert capfd.readouterr().err == (
        "binary-checks: --engine dask:tcp://a:1: distributed is not installed: "
        "pip install 'binary-checks[dask]'\n"
    )


@pytest.mark.slow
def test_without_a_worker_there_is_nothing_to_wait_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(dask_engine, "_CONNECT", 1.0)
    keep_plan(store)
    with start_cluster() as started:
        assert run_night(store, *dask(started)) == 6
        said = f"dask:{started.scheduler_address}: the scheduler has no worker that answers"
    assert capfd.readouterr().err == f"binary-checks: {said}\n"


@pytest.mark.slow
def test_cpu_work_goes_anywhere_where_no_worker_declares_a_resource_for_it(store: Store) -> None:
    with (
        start_cluster(plain={}, gpu={"GPU": 1}) as started,
        dask_engine.open_dask(started.scheduler_address, store.url) as engine,
    ):
        assert engine.queues.keys() == {CPU, GPU}
        assert engine.queues[CPU].submit(abs, -1).result(10) == 1


@pytest.mark.slow
def test_a_scheduler_that_goes_ends_the_night_in_order_and_another_run_ends_it_well(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(dask_engine, "PATIENCE", 1.0)
    cells = [plan_cell(tmp_path, f"c{number}", "sleep 2") for number in range(3)]
    keep_plan(store, *cells)
    started = start_cluster(cpu={"CPU": 1})
    with once_any_runs(cells, started.close):
        assert run_night(store, *dask(started)) == 6
    assert "to continue: binary-checks nightly run" in capfd.readouterr().out
    assert run_night(store) == 0
    assert {name: len(rows) for name, rows in kept(store, *cells).items()} == dict.fromkeys(
        ("c0", "c1", "c2"), 1
    )


@pytest.mark.slow
def test_a_stage_whose_workers_have_gone_is_waited_for_and_then_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client is asked for no more than these."""

    class Client:
        status = "running"
        workers: ClassVar = {"tcp://a": {"resources": {"GPU": 1}}, "tcp://b": {"resources": {}}}

        def register_plugin(self, *_: Any, **__: Any) -> None:
            """Take it."""

        def scheduler_info(self, n_workers: int) -> Any:
            return {"workers": self.workers}

        def get_executor(self, **options: Any) -> Any:
            return options["resources"]

    client = Client()
    monkeypatch.setattr(dask_engine, "PATIENCE", 0.1)
    cluster = dask_engine.Cluster(client, "dask:tcp://a")
    assert cluster.queues == {CPU: None, GPU: {"GPU": 1}}
    client.workers = {"tcp://b": {"resources": {}}}  # another one may come for the one that died
    assert cluster.find_fault({CPU, GPU}) == ""
    time.sleep(0.2)
    assert cluster.find_fault({CPU}) == ""
    assert cluster.find_fault({GPU}) == ""  # nothing had waited for it
    time.sleep(0.2)
    said = "dask:tcp://a: no worker for the GPU stage for 0.1 s"
    assert cluster.find_fault({CPU, GPU}) == said
