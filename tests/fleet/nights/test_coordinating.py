"""The coordinator with failing engines and stores: only documents count."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from binary_checks.errors import StoreError
from binary_checks.fleet.night import CPU, GPU, Attempt, PlannedCell
from binary_checks.fleet.nights import (
    AttemptTask,
    Coordinator,
    CoordinatorLog,
    Engine,
    NightOutcome,
    run_attempt,
)
from binary_checks.fleet.store import Store
from binary_checks.model import CellState
from tests.fleet.nights.night_cells import (
    STAND_IN,
    keep_plan,
    plan_cell,
    runs_of,
    states_of,
)

Run = Callable[[AttemptTask], Attempt]


class Scripted(Executor):
    """Its futures do as the next line of the script says, which is given how to run a task."""

    def __init__(self, *script: Callable[[AttemptTask, Run], Attempt]) -> None:
        self.script = list(script)
        self.tasks = list[AttemptTask]()

    def submit(self, run: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        (task,) = arguments
        self.tasks.append(task)
        future = Future[Attempt]()
        try:
            future.set_result(self.script.pop(0)(task, run) if self.script else run(task))
        except BaseException as error:  # as a worker gives it back
            future.set_exception(error)
        return future


def coordinate(
    store: Store,
    executor: Scripted,
    cells: Sequence[PlannedCell],
    out: TextIO | None = None,
    stages: Sequence[str] = (CPU,),
) -> NightOutcome:
    run, queues = partial(run_attempt, store=store), dict.fromkeys(stages, executor)
    engine = Engine(name="scripted", queues=queues, run=run, stop=lambda _: None)
    plan, log = keep_plan(store, *cells), CoordinatorLog(out or io.StringIO())
    return Coordinator(store, plan, engine, log, chosen=cells, program=STAND_IN, pause=0.0).run()


def die(_: AttemptTask, run: Run) -> Attempt:
    raise RuntimeError("the worker was killed")


def run_and_die(task: AttemptTask, run: Run) -> Attempt:
    run(task)
    raise RuntimeError("the worker was killed after its last word")


def fail_to_store(_: AttemptTask, run: Run) -> Attempt:
    raise StoreError("s3://nights: cannot be written: 500")


def fail_or_run(task: AttemptTask, run: Run) -> Attempt:
    return fail_to_store(task, run) if task.planned.cell.id == "a" else run(task)


def test_a_worker_that_dies_loses_one_attempt(store: Store, tmp_path: Path) -> None:
    cell = plan_cell(tmp_path, "numpy", "exit 0")
    outcome = coordinate(store, Scripted(die), [cell])
    assert outcome.ends["numpy"].state is CellState.PASSED
    assert states_of(store) == {"numpy": ["lost", "passed"]}


def test_a_worker_that_dies_after_its_document_was_stored_loses_nothing(
    store: Store, tmp_path: Path
) -> None:
    cell = plan_cell(tmp_path, "numpy", "exit 0")
    coordinate(store, Scripted(run_and_die), [cell])
    assert states_of(store) == {"numpy": ["passed"]}
    assert len(runs_of(cell)) == 1


def test_the_gpu_stage_gets_the_facts_of_the_pass(store: Store, tmp_path: Path) -> None:
    def run_and_keep_facts(task: AttemptTask, run: Run) -> Attempt:
        return replace(run(task), facts=task.planned.sha256)

    cell, executor = plan_cell(tmp_path, "numpy", "exit 0", gpu=True), Scripted(run_and_keep_facts)
    coordinate(store, executor, [cell], stages=(CPU, GPU))
    assert [(task.stage, task.facts) for task in executor.tasks] == [(CPU, ""), (GPU, cell.sha256)]


def test_what_could_not_be_stored_is_no_attempt_and_ends_no_other_cell(
    store: Store, tmp_path: Path
) -> None:
    cells, out = [plan_cell(tmp_path, name, "exit 0") for name in ("a", "b")], io.StringIO()
    executor = Scripted(*[fail_or_run] * 2)
    outcome = coordinate(store, executor, cells, out)
    assert outcome.ends["a"].unrun  # and left to another run
    assert outcome.ends["a"].state is CellState.LOST
    assert states_of(store) == {"b": ["passed"]}
    assert len(executor.tasks) == 2
    assert "a.cpu1: s3://nights: cannot be written: 500" in out.getvalue().splitlines()


def test_a_night_with_an_attempt_that_could_not_be_stored_has_not_ended(
    store: Store, tmp_path: Path
) -> None:
    cell = plan_cell(tmp_path, "numpy", "exit 6")  # an attempt that is made again
    outcome = coordinate(store, Scripted(lambda task, run: run(task), fail_to_store), [cell])
    assert states_of(store) == {"numpy": ["infra"]}
    assert outcome.stopped == "numpy.cpu2: s3://nights: cannot be written: 500"


def test_an_attempt_that_was_called_off_did_not_happen(store: Store, tmp_path: Path) -> None:
    def call_off(_: AttemptTask, run: Run) -> Attempt:
        raise CancelledError

    coordinate(store, Scripted(call_off), [plan_cell(tmp_path, "a", "exit 0")])
    assert states_of(store) == {}
