"""Run the attempts that a night still needs, in two queues, until each cell is complete.

Only documents in the store count: a future that failed may have stored a result, and one that
succeeded may not have. A pause before another attempt delays no other cell.

Several coordinators may run one night. Each takes the cells in a random order and skips attempts
that have a document. They thus share the work, and an attempt that two of them make does no harm.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from binary_checks.errors import StoreError
from binary_checks.fleet.night import (
    CPU,
    GOOD,
    GPU,
    Attempt,
    CellEnd,
    NightPlan,
    PlannedCell,
    final_state,
)
from binary_checks.fleet.nights.attempt_process import StoppedError
from binary_checks.fleet.nights.attempting import (
    AttemptTask,
    NextAttempt,
    find_stored_attempt,
    make_lost_attempt,
    plan_next,
    record,
)
from binary_checks.fleet.nights.coordinator_log import CoordinatorLog
from binary_checks.fleet.store import (
    Store,
    ask_at_once,
    result_prefix,
    running_prefix,
    split_attempt,
)
from binary_checks.model import CellState

PAUSE = 30.0  # seconds before the second attempt; the third waits four times as long
ALL = "all"
_TICK = 0.5  # seconds between two looks at what waits and runs, if nothing happens
_Key = tuple[str, str]  # a cell's id and a stage


@dataclass(frozen=True, kw_only=True, slots=True)
class NightOutcome:
    """The end of one run of a night; the night may continue elsewhere."""

    ends: Mapping[str, CellEnd]  # cell id -> its end, without stages that other hosts run
    waiting: tuple[str, ...] = ()  # cells whose GPU stage needs another host
    stopped: str = ""  # why it ended before all cells were complete; "" if they are
    interrupted: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A runner of attempts in queues. Return values do not count, only documents in the store."""

    name: str  # as recorded in attempts
    queues: Mapping[str, Executor]  # stage -> executor; no entry for GPU work that other hosts do
    run: Callable[[AttemptTask], Attempt]  # the function to submit
    stop: Callable[[bool], None]
    """End what runs, or kill it if the argument is true; those attempts do not count."""
    find_fault: Callable[[Collection[str]], str] = lambda _: ""
    """Return why waiting or running work of the stages will never be done, or ""."""


class Coordinator:
    """Runs the chosen cells of a planned night."""

    def __init__(  # noqa: PLR0913 - what it runs, and with what
        self,
        store: Store,
        plan: NightPlan,
        engine: Engine,
        log: CoordinatorLog,
        *,
        chosen: Sequence[PlannedCell],
        queue: str = ALL,
        pause: float = PAUSE,
        program: Sequence[str] = (),
    ) -> None:
        self._store, self._engine, self._log = store, engine, log
        self._plan = replace(plan, cells=())  # each task contains it
        self._chosen = {each.cell.id: each for each in random.sample(chosen, len(chosen))}
        self._queue, self._pause, self._program = queue, pause, tuple(program)
        self._tried: dict[_Key, list[Attempt]] = {}
        # attempts that wait, and until when, by the monotonic clock
        self._due: dict[_Key, tuple[float, NextAttempt]] = {}
        self._running: dict[_Key, tuple[AttemptTask, Future[Attempt]]] = {}
        self._events: SimpleQueue[tuple[AttemptTask, Future[Attempt]] | None] = SimpleQueue()
        self._stopped, self._interrupts = "", 0
        self._unstored = ""  # why an attempt counts for nothing, which another run makes again

    def interrupt(self) -> None:
        """Stop; a second call stops immediately. Signal handlers may call this."""
        self._events.put(None)

    def run(self) -> NightOutcome:
        """Run the attempts that lack a result. Raises StoreError if the store cannot be read."""
        start = time.monotonic()
        for attempt in read_attempts(self._store, self._plan.night, self._chosen):
            self._remember(attempt)
        ready = [each for each in self._chosen.values() if each.state is None]
        self._log.begin(len(self._chosen), sum(bool(self._attempts(each)) for each in ready))
        for planned in self._chosen.values():
            if planned.state is None:
                self._advance(planned)
            else:
                self._log.end(planned, self._end_of(planned))
        self._loop()
        self._clear_marks()
        return NightOutcome(
            ends={name: self._end_of(planned) for name, planned in self._chosen.items()},
            waiting=tuple(each.cell.id for each in ready if self._waits(each)),
            stopped=self._stopped or self._unstored,
            interrupted=self._interrupts > 0,
            seconds=time.monotonic() - start,
        )

    def _clear_marks(self) -> None:
        """Remove marks that killed processes left for attempts that are complete."""
        tried = [each for attempts in self._tried.values() for each in attempts]
        done = {(each.cell, each.stage, each.number) for each in tried}
        for stored in list(self._store.names(running_prefix(self._plan.night))):
            if split_attempt(stored.name) in done:
                self._store.delete(stored.name)

    def _remember(self, attempt: Attempt) -> None:
        attempt = replace(attempt, result=None)  # 400 results are large, and none is needed here
        self._tried.setdefault((attempt.cell, attempt.stage), []).append(attempt)

    def _attempts(self, planned: PlannedCell, *stages: str) -> list[Attempt]:
        tried = (self._tried.get((planned.cell.id, stage), ()) for stage in stages or (CPU, GPU))
        return [each for row in tried for each in row]

    # The next attempts of a cell

    def _advance(self, planned: PlannedCell) -> None:
        """Queue the next attempt of the cell's first stage, then of its second."""
        if self._queue != GPU and self._enqueue(planned, CPU):
            return
        # a second stage whose first has not passed is not tried
        passed = self._facts_of_pass(planned) is not None
        if planned.cell.gpu and self._runs_gpu and passed and self._enqueue(planned, GPU):
            return
        self._log.end(planned, self._end_of(planned))

    @property
    def _runs_gpu(self) -> bool:
        return self._queue != CPU and GPU in self._engine.queues

    def _enqueue(self, planned: PlannedCell, stage: str) -> bool:
        """Queue the next attempt of a stage; return False if it needs none."""
        key = (planned.cell.id, stage)
        following = plan_next(self._tried.get(key, ()), self._pause)
        if following is not None:
            self._due[key] = time.monotonic() + following.pause, following
        return following is not None

    def _facts_of_pass(self, planned: PlannedCell) -> str | None:
        """Return the SHA-256 of the facts that the CPU stage stored, or "" if it stored none.

        Return None if the CPU stage has not passed.
        """
        same = (each for each in self._attempts(planned, CPU) if each.sha256 == planned.sha256)
        passed = [each for each in same if each.state in GOOD]
        return passed[-1].facts if passed else None

    # Running attempts

    def _loop(self) -> None:
        while self._due or self._running:
            self._submit_due()
            try:
                event = self._events.get(timeout=_TICK)
            except Empty:
                self._look()
                continue
            if event is None:
                self._stop("")
            else:
                self._take(*event)

    def _submit_due(self) -> None:
        """Submit each attempt that is due to its stage's executor, which queues it."""
        now = time.monotonic()
        for key, (when, following) in list(self._due.items()):
            if when <= now and not self._stopped:
                del self._due[key]
                self._submit(key, following)

    def _submit(self, key: _Key, following: NextAttempt) -> None:
        planned, stage = self._chosen[key[0]], key[1]
        facts = (self._facts_of_pass(planned) or "") if stage == GPU else ""
        task = AttemptTask(
            plan=self._plan,
            planned=planned,
            stage=stage,
            number=following.number,
            facts=facts,
            engine=self._engine.name,
            program=self._program,
        )
        try:
            future = self._engine.queues[stage].submit(self._engine.run, task)
        except Exception as error:  # such as a client's error if its scheduler has gone
            self._stop(f"{self._engine.name}: {type(error).__name__}: {error}")
            return
        self._running[key] = task, future
        future.add_done_callback(lambda done: self._events.put((task, done)))

    def _look(self) -> None:
        """Give up if the engine cannot run the waiting attempts."""
        if fault := self._engine.find_fault({stage for _, stage in self._running}):
            self._stop(fault)
            self._running.clear()

    def _stop(self, reason: str) -> None:
        self._interrupts += not reason
        self._stopped = self._stopped or reason or "interrupted"
        self._due.clear()
        self._log.print_line(f"{self._stopped}: ending what runs")
        self._engine.stop(self._interrupts > 1)

    def _take(self, task: AttemptTask, future: Future[Attempt]) -> None:
        """Process an attempt that ended, and queue the next one."""
        key = (task.planned.cell.id, task.stage)
        self._running.pop(key, None)
        attempt = self._settle(task, future)
        if attempt is None:
            return
        self._remember(attempt)
        following = plan_next(self._tried[key], self._pause)
        self._log.finish(attempt, following)
        if not self._stopped:
            self._advance(task.planned)

    def _settle(self, task: AttemptTask, future: Future[Attempt]) -> Attempt | None:
        """Return the attempt that counts; None if it did not happen or could not be stored."""
        try:
            try:
                return future.result()
            except StoppedError:
                return None
            except CancelledError:
                if not self._stopped:
                    self._stop(f"{self._engine.name}: the scheduler has stopped")
                return None
            except StoreError:
                raise
            except Exception as error:  # whatever ended the worker
                if self._stopped:
                    return None
                return record(
                    self._store, task, make_lost_attempt(task, f"{type(error).__name__}: {error}")
                )
        except StoreError as error:  # another run of the night makes it
            self._unstored = f"{task.name}: {error}"
            self._log.print_line(self._unstored)
            return None

    # The end of a cell

    def _waits(self, planned: PlannedCell) -> bool:
        """Return whether the cell's second stage could begin on a host with a GPU."""
        state = final_state(planned, self._attempts(planned)).state
        return state is CellState.BLOCKED and self._queue != CPU and not self._runs_gpu

    def _end_of(self, planned: PlannedCell) -> CellEnd:
        """Return how the cell ended, ignoring a stage that another host has yet to begin."""
        elsewhere = not self._runs_gpu and not self._attempts(planned, GPU)
        if planned.cell.gpu and (elsewhere or self._queue == CPU):
            planned = replace(planned, cell=replace(planned.cell, gpu=False))
        return final_state(planned, self._attempts(planned))


def read_attempts(store: Store, night: str, cells: Mapping[str, PlannedCell]) -> list[Attempt]:
    """Return the attempts of these cells by stage and number; unreadable ones count as lost."""

    def read(name: str) -> Attempt | None:
        about = split_attempt(name)
        if about is None or about[0] not in cells:
            return None
        found = find_stored_attempt(store, night, about, cells[about[0]].sha256)
        return found and replace(found, result=None)

    names = [stored.name for stored in store.names(result_prefix(night))]
    found = filter(None, ask_at_once(read, names))
    return sorted(found, key=lambda each: (each.cell, each.stage, each.number))
