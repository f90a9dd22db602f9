"""Run the attempts that a night still needs, in two queues, until each cell is complete.

Only documents in the store count: a future that failed may have stored a result, and one that
succeeded may not have. A pause before another attempt delays no other cell.

Several coordinators may run one night. Each takes the cells in a random order and skips attempts
that have a document. They thus share the work, and an attempt that two of them make does no harm.
"""

from __future__ import annotations

import heapq
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Protocol, TextIO

from binary_checks.errors import RecordError, StoreError
from binary_checks.fleet.night import (
    CPU,
    GOOD,
    GPU,
    LETTERS,
    Attempt,
    CellEnd,
    NightPlan,
    PlannedCell,
    final_state,
)
from binary_checks.fleet.nights.attempt_process import StoppedError
from binary_checks.fleet.nights.attempting import (
    MOST,
    AttemptTask,
    NextAttempt,
    make_lost_attempt,
    plan_next,
    record,
)
from binary_checks.fleet.store import (
    Store,
    ask_at_once,
    result_name,
    result_prefix,
    running_prefix,
    split_attempt,
)
from binary_checks.fleet.stored_nights import make_unreadable_attempt, read_stored_attempt
from binary_checks.model import CellState
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

PAUSE = 30.0  # seconds before the second attempt; the third waits four times as long
ALL = "all"
_TICK = 1.0  # seconds between two checks of the running attempts, if nothing happens
_Key = tuple[str, str]  # a cell's id and a stage
MakeTask = Callable[[PlannedCell, str, NextAttempt, str], AttemptTask]
"""Makes a task from a cell, a stage, the number of the attempt, and the SHA-256 of facts to use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NightOutcome:
    """The end of one run of a night; the night may continue elsewhere."""

    ends: Mapping[str, CellEnd]  # cell id -> its end, without stages that other hosts run
    waiting: tuple[str, ...] = ()  # cells whose GPU stage needs another host
    stopped: str = ""  # why it ended before all cells were complete; "" if they are
    interrupted: bool = False
    seconds: float = 0.0


@dataclass(order=True, slots=True)
class _Due:
    """An attempt that waits for its time."""

    when: float  # by the monotonic clock
    order: int
    key: _Key = field(compare=False)
    following: NextAttempt = field(compare=False)


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
    folder: str = ""  # where attempts make their folders; "" if workers have their own


class Coordinator:
    """Runs the chosen cells of a planned night."""

    def __init__(  # noqa: PLR0913 - what it runs, and with what
        self,
        store: Store,
        plan: NightPlan,
        engine: Engine,
        progress: NightProgress,
        *,
        chosen: Sequence[PlannedCell],
        make_task: MakeTask,
        queue: str = ALL,
        pause: float = PAUSE,
    ) -> None:
        self._store, self._plan, self._engine, self._progress = store, plan, engine, progress
        self._chosen = {each.cell.id: each for each in random.sample(chosen, len(chosen))}
        self._make_task, self._queue, self._pause = make_task, queue, pause
        self._tried: dict[_Key, list[Attempt]] = {}
        self._due: list[_Due] = []
        self._running: dict[_Key, tuple[AttemptTask, Future[Attempt]]] = {}
        self._in_vain: dict[_Key, int] = {}  # attempts whose document could not be stored
        self._events: SimpleQueue[tuple[AttemptTask, Future[Attempt]] | str] = SimpleQueue()
        self._stopped, self._interrupts, self._count = "", 0, 0

    def interrupt(self) -> None:
        """Stop; a second call stops immediately. Signal handlers may call this."""
        self._events.put("")

    def give_up(self, reason: str) -> None:
        """Stop for the given reason."""
        self._events.put(reason)

    def run(self) -> NightOutcome:
        """Run the attempts that lack a result. Raises StoreError if the store cannot be read."""
        start = time.monotonic()
        for attempt in read_attempts(self._store, self._plan.night, self._chosen):
            self._remember(attempt)
        ready = [each for each in self._chosen.values() if each.state is None]
        self._progress.begin(len(self._chosen), sum(map(self._has_begun, ready)))
        for planned in self._chosen.values():
            if planned.state is None:
                self._advance(planned)
            else:
                self._progress.end(planned, self._end_of(planned))
        self._loop()
        self._clear_marks()
        return NightOutcome(
            ends={name: self._end_of(planned) for name, planned in self._chosen.items()},
            waiting=tuple(each.cell.id for each in ready if self._waits(each)),
            stopped=self._stopped,
            interrupted=self._interrupts > 0,
            seconds=time.monotonic() - start,
        )

    def _clear_marks(self) -> None:
        """Remove marks that killed processes left for attempts that are complete."""
        done = {(each.cell, each.stage, each.number) for each in self._attempts_of_all()}
        for stored in list(self._store.names(running_prefix(self._plan.night))):
            if split_attempt(stored.name) in done:
                self._store.delete(stored.name)

    def _attempts_of_all(self) -> Iterable[Attempt]:
        return (each for tried in self._tried.values() for each in tried)

    def _has_begun(self, planned: PlannedCell) -> bool:
        return any((planned.cell.id, stage) in self._tried for stage in (CPU, GPU))

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
        if planned.cell.gpu and self._runs_gpu:
            if self._facts_of_pass(planned) is None:
                self._block(planned)
            elif self._enqueue(planned, GPU):
                return
        self._progress.end(planned, self._end_of(planned))

    @property
    def _runs_gpu(self) -> bool:
        return self._queue != CPU and GPU in self._engine.queues

    def _enqueue(self, planned: PlannedCell, stage: str) -> bool:
        """Queue the next attempt of a stage; return False if it needs none."""
        key = (planned.cell.id, stage)
        following = plan_next(self._tried.get(key, ()), self._pause)
        if following is not None:
            self._push(key, following)
        return following is not None

    def _push(self, key: _Key, following: NextAttempt) -> None:
        self._count += 1
        when = time.monotonic() + following.pause
        due = _Due(when=when, order=self._count, key=key, following=following)
        heapq.heappush(self._due, due)

    def _facts_of_pass(self, planned: PlannedCell) -> str | None:
        """Return the SHA-256 of the facts that the CPU stage stored, or "" if it stored none.

        Return None if the CPU stage has not passed.
        """
        passed = [each for each in self._attempts(planned, CPU) if each.state in GOOD]
        same = [each for each in passed if each.sha256 == planned.sha256]
        return same[-1].facts if same else None

    def _block(self, planned: PlannedCell) -> None:
        """Record, once, that the second stage cannot begin."""
        key = (planned.cell.id, GPU)
        tried = self._tried.get(key, ())
        if tried and tried[-1].state is CellState.BLOCKED:
            return
        number = 1 + max((each.number for each in tried), default=0)
        task = self._make_task(planned, GPU, NextAttempt(number=number), "")
        ended = self._attempts(planned, CPU)
        why = f"its CPU stage {ended[-1].state.value}" if ended else "no result of its CPU stage"
        blocked = replace(
            make_lost_attempt(task, why),
            state=CellState.BLOCKED,
            cause="",
            cause_kind="",
            again=False,
        )
        try:
            self._remember(record(self._store, task, blocked))
        except StoreError as error:  # the record only informs people
            self._progress.print_line(f"{task.name}: {error}")

    # Running attempts

    def _loop(self) -> None:
        while self._due or self._running:
            self._submit_due()
            try:
                event = self._events.get(timeout=self._seconds_to_look())
            except Empty:
                self._look()
                continue
            if isinstance(event, str):
                self._stop(event)
            else:
                self._take(*event)

    def _submit_due(self) -> None:
        """Submit each attempt that is due to its stage's executor, which queues it."""
        while self._due and self._due[0].when <= time.monotonic():
            self._submit(heapq.heappop(self._due))

    def _submit(self, due: _Due) -> None:
        planned, stage = self._chosen[due.key[0]], due.key[1]
        facts = (self._facts_of_pass(planned) or "") if stage == GPU else ""
        task = self._make_task(planned, stage, due.following, facts)
        try:
            future = self._engine.queues[stage].submit(self._engine.run, task)
        except Exception as error:  # such as a client's error if its scheduler has gone
            self.give_up(f"{self._engine.name}: {type(error).__name__}: {error}")
            return
        self._running[due.key] = task, future
        future.add_done_callback(lambda done: self._events.put((task, done)))

    def _seconds_to_look(self) -> float:
        """Return the seconds until the next attempt is due, at most one second."""
        if not self._due:
            return _TICK
        return min(_TICK, max(0.0, self._due[0].when - time.monotonic()))

    def _look(self) -> None:
        """Show the running attempts, and give up if the engine cannot run the waiting ones."""
        running = [task.name for task, future in self._running.values() if future.running()]
        self._progress.show(running)
        if fault := self._engine.find_fault({stage for _, stage in self._running}):
            self._stop(fault)
            self._running.clear()

    def _stop(self, reason: str) -> None:
        self._interrupts += not reason
        self._stopped = self._stopped or reason or "interrupted"
        self._due.clear()
        self._progress.print_line(f"{self._stopped}: ending what runs")
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
        self._progress.finish(attempt, following, MOST)
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
        except StoreError as error:
            self._try_again(task, error)
            return None

    def _try_again(self, task: AttemptTask, error: StoreError) -> None:
        """If an attempt could not be stored, queue it again, up to a few times."""
        key = (task.planned.cell.id, task.stage)
        self._in_vain[key] = count = self._in_vain.get(key, 0) + 1
        self._progress.print_line(f"{task.name}: {error}")
        if not self._stopped and count < MOST:
            self._push(key, NextAttempt(number=task.number, pause=self._pause * count))

    # The end of a cell

    def _waits(self, planned: PlannedCell) -> bool:
        """Return whether the cell's second stage could begin on a host with a GPU."""
        could = planned.cell.gpu and self._queue != CPU and not self._runs_gpu
        return (
            could and not self._attempts(planned, GPU) and self._facts_of_pass(planned) is not None
        )

    def _end_of(self, planned: PlannedCell) -> CellEnd:
        """Return how the cell ended, ignoring a stage that another host has yet to begin."""
        elsewhere = not self._runs_gpu and not self._attempts(planned, GPU)
        if planned.cell.gpu and (elsewhere or self._queue == CPU):
            planned = replace(planned, cell=replace(planned.cell, gpu=False))
        return final_state(planned, self._attempts(planned))


def read_attempts(store: Store, night: str, cells: Mapping[str, PlannedCell]) -> list[Attempt]:
    """Return the attempts of these cells by stage and number; unreadable ones count as lost."""
    listed = [stored.name for stored in store.names(result_prefix(night))]
    wanted = [name for name in listed if (of := split_attempt(name)) and of[0] in cells]

    def read(name: str) -> Attempt:
        named = split_attempt(name)
        assert named is not None
        return replace(_read(store, night, named, cells[named[0]].sha256), result=None)

    found = ask_at_once(read, wanted)
    return sorted(found, key=lambda each: (each.cell, each.stage, each.number))


def _read(store: Store, night: str, named: tuple[str, str, int], sha256: str) -> Attempt:
    name = result_name(night, *named)
    try:
        return read_stored_attempt(store.read(name) or b"", name)
    except RecordError as error:
        return make_unreadable_attempt(name, night, sha256, error)


# The display of a running night: on a terminal one line that changes, else a line a cell.

_CLEAR = "\r\x1b[K"


class NightProgress(Protocol):
    """Receives what happens in a night, in order."""

    def begin(self, cells: int, begun: int) -> None:
        """Called first, with the number of cells, and how many have results already."""

    def show(self, running: Sequence[str]) -> None:
        """Called with the names of the running attempts that this process knows."""

    def finish(self, attempt: Attempt, following: NextAttempt | None, most: int) -> None:
        """Called when an attempt ended, with the attempt that follows."""

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """Called when a cell is complete."""

    def print_line(self, text: str) -> None:
        """Called with a message about the whole night."""


class NightScreen:
    """Shows a night on a terminal, or as lines in a file or a pipe."""

    def __init__(self, out: TextIO, *, terminal: bool) -> None:
        self._out, self._terminal = out, terminal
        self._cells, self._counts = 0, Counter[CellState]()
        self._running: Sequence[str] = ()
        self._start = time.monotonic()

    def begin(self, cells: int, begun: int) -> None:
        """Show the number of cells."""
        self._cells = cells
        resumed = f", {begun} of them started before" if begun else ""
        self.print_line(f"{count(cells, 'cell')}{resumed}")

    def show(self, running: Sequence[str]) -> None:
        """Show the running attempts, and the time."""
        self._running = running
        self._redraw()

    def finish(self, attempt: Attempt, following: NextAttempt | None, most: int) -> None:
        """Show an attempt that failed and will be repeated."""
        if following is not None and attempt.state not in GOOD:
            again = f"again in {following.pause:,.0f} s ({following.number} of at most {most})"
            self.print_line(f"{attempt.cell}: {attempt.state.value}: {_why(attempt)}: {again}")
        self._redraw()

    def end(self, planned: PlannedCell, end: CellEnd) -> None:
        """Show how a cell ended; on a terminal only if it did not end well."""
        self._counts[end.state] += 1
        if not self._terminal or end.state not in GOOD:
            self.print_line(format_end(planned, end))
        self._redraw()

    def print_line(self, text: str) -> None:
        """Print the text as one line."""
        clear = _CLEAR if self._terminal else ""
        self._print(f"{clear}{cut(one_line(text))}\n")
        self._redraw()

    def close(self) -> None:
        """Clear the line that is being updated."""
        if self._terminal:
            self._print(_CLEAR)

    def _redraw(self) -> None:
        if not self._terminal:
            return
        done = sum(self._counts.values())
        bad = ", ".join(f"{n} {s.value}" for s, n in self._counts.items() if s not in GOOD)
        names = " ".join(self._running)
        parts = (f"{done}/{self._cells}", f"{time.monotonic() - self._start:,.0f} s", bad, names)
        width = shutil.get_terminal_size().columns - 1
        self._print(f"{_CLEAR}{one_line(' · '.join(filter(None, parts)))[:width]}")

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def format_end(planned: PlannedCell, end: CellEnd) -> str:
    """Return how a cell ended, why, and how long all its attempts took."""
    why = end.evidence or end.reason
    seconds = sum(each.seconds for each in end.attempts)
    text = f"{LETTERS[end.state]} {planned.cell.id}: {end.state.value}"
    return f"{text}{f': {why}' if why else ''} ({seconds:,.1f} s)"


def _why(attempt: Attempt) -> str:
    return attempt.evidence or attempt.reason or "problems"
