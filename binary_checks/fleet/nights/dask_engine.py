"""The engine of a cluster: attempts as tasks of Dask's workers, GPU work on those that declare it.

A worker runs an attempt as a thread of the night does. Dask repeats the task of a worker that died
on another one, and may report as lost what was done: so nothing that it says counts, and a task
whose document is in the store already does no more than return it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from distributed import Client, WorkerPlugin, get_worker

from binary_checks import __version__
from binary_checks.errors import BinaryChecksError, GatherError, ProfileError
from binary_checks.fleet.attempts import CPU, GPU, Attempt
from binary_checks.fleet.nights.attempt_process import RunningProcesses
from binary_checks.fleet.nights.attempting import AttemptTask, run_attempt
from binary_checks.fleet.nights.engines import EngineGone
from binary_checks.fleet.nights.gpu_devices import list_devices
from binary_checks.fleet.store import open_store

RESOURCES = {CPU: "CPU", GPU: "GPU"}
"""The resource of each stage, as workers declare it. Where none declares CPU, all take its work."""
PATIENCE = 60.0  # seconds without a scheduler, or without a worker for what waits
_CONNECT = 10.0  # seconds for the scheduler to answer, and for the workers to say what they are
_ROUND = 0.5  # seconds between two looks at the workers


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerState:
    """What a worker says of itself before anything is given to it."""

    version: str  # of binary_checks
    complaint: str = ""  # why it cannot use the store


class _Client(Client):  # type: ignore[misc] # distributed has no types
    """Closes when it is told to: else one that found no scheduler waits for it at the exit."""

    def __del__(self) -> None:
        """Do nothing."""


class _Attempts(WorkerPlugin):  # type: ignore[misc] # distributed has no types
    """What a worker has for the attempts of one coordinator: their processes, and its GPUs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = RunningProcesses()
        self.devices = SimpleQueue[str]()

    def __reduce__(self) -> tuple[type[_Attempts], tuple[str]]:
        return type(self), (self.name,)

    def setup(self, worker: Any) -> None:
        """Give each GPU attempt that may run at once a device of its own."""
        self.running = RunningProcesses()
        count = int(worker.state.total_resources.get(RESOURCES[GPU], 0))
        for device in list_devices(count):
            self.devices.put(device)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - its name there
        """Leave nothing that runs."""
        self.running.stop(at_once=True)


def _run(task: AttemptTask, plugin: str) -> Attempt:
    """Run on a worker: the attempt, with what that worker has for it."""
    own: _Attempts = get_worker().plugins[plugin]
    if task.stage != GPU:
        return run_attempt(task, running=own.running)
    device = own.devices.get()
    try:
        return run_attempt(replace(task, device=device), running=own.running)
    finally:
        own.devices.put(device)


def _stop(plugin: str, at_once: bool, dask_worker: Any) -> None:
    """Run on each worker: end what runs of that coordinator."""
    own = dask_worker.plugins.get(plugin)
    if own is not None:
        own.running.stop(at_once=at_once)


def _look(store: str) -> WorkerState:
    """Run on each worker: what it is, and whether it has the store."""
    try:
        open_store(store)
    except BinaryChecksError as error:
        return WorkerState(version=__version__, complaint=str(error))
    return WorkerState(version=__version__)


@contextlib.contextmanager
def open_dask(address: str, store: str) -> Iterator[DaskEngine]:
    """The engine of the scheduler there, for a store by its URL.

    Raises GatherError where there is no scheduler, no worker, or one that is not as it must be, and
    ProfileError for what is no address.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it lost is told by us
    store = store if "://" in store else str(Path(store).absolute())
    client = _connect(address)
    try:
        _demand_workers(client, address, store)
        engine = DaskEngine(client, address, store)
        try:
            yield engine
        finally:
            engine.close()
    finally:
        with contextlib.suppress(Exception):  # of a scheduler that is gone
            client.close(timeout=_CONNECT)


def _connect(address: str) -> Client:
    try:
        return _Client(address, timeout=_CONNECT, set_as_default=False, name="binary-checks")
    except (OSError, TimeoutError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise GatherError(f"dask:{address}: no scheduler answers: {why}") from None
    except (ValueError, TypeError, ImportError) as error:
        raise ProfileError(f"--engine dask:{address}: not an address: {error}") from None


def _demand_workers(client: Client, address: str, store: str) -> None:
    """Raise GatherError unless there are workers, and each of them can run attempts."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
        found = client.run(_look, store, on_error="return")
    except (OSError, TimeoutError):
        raise GatherError(f"dask:{address}: the scheduler has no worker that answers") from None
    for worker, state in sorted(found.items()):
        where = f"dask:{address}: worker {worker}"
        if not isinstance(state, WorkerState):
            said = f"{type(state).__name__}: {state}"
            raise GatherError(f"{where}: binary-checks[dask,fleet] does not run there: {said}")
        if state.version != __version__:
            raise GatherError(f"{where}: it has binary_checks {state.version}, not {__version__}")
        if state.complaint:
            raise GatherError(f"{where}: {state.complaint}")


class DaskEngine:
    """Gives attempts to a scheduler, and gives up on it where it has none to run them."""

    folder = ""  # each worker has its own

    def __init__(
        self, client: Client, address: str, store: str, patience: float = PATIENCE
    ) -> None:
        self.name = f"dask:{address}"
        self._client, self._store, self._patience = client, store, patience
        self._plugin = f"binary-checks-{uuid.uuid4().hex}"
        client.register_plugin(_Attempts(self._plugin), name=self._plugin)
        self._most = {CPU: 1, GPU: 0}  # slots that there ever were
        self._lock = threading.Lock()
        self._waiting: dict[Future[Attempt], AttemptTask] = {}
        self._over = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, daemon=True)
        self._watchdog.start()

    def slots(self, stage: str) -> int:
        """How many attempts of a stage may run at once; where there ever were some, never none.

        For a worker that died may be replaced: `submit` learns when that takes too long. For CPU
        work there was one when the engine was opened.
        """
        now = self._count(stage)
        self._most[stage] = max(self._most[stage], now)
        return now or min(1, self._most[stage])

    def _count(self, stage: str) -> int:
        workers = self._workers()
        name = RESOURCES[stage]
        declared = sum(int(each["resources"].get(name, 0)) for each in workers.values())
        if stage == GPU or self._declares(workers, name):
            return declared
        return sum(int(each["nthreads"]) for each in workers.values())

    def _workers(self) -> Mapping[str, Any]:
        """As the scheduler last said, which it does every two seconds."""
        found: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)
        workers: Mapping[str, Any] = found.get("workers", {})  # nothing at all once it has gone
        return workers

    @staticmethod
    def _declares(workers: Mapping[str, Any], name: str) -> bool:
        return any(each["resources"].get(name) for each in workers.values())

    def _demand(self, stage: str) -> dict[str, int] | None:
        """What a worker must have. A resource that nobody offers would be waited for for ever."""
        name = RESOURCES[stage]
        return {name: 1} if stage == GPU or self._declares(self._workers(), name) else None

    def submit(self, task: AttemptTask) -> Future[Attempt]:
        """Give an attempt to the scheduler. What comes of it is in the store before it is here."""
        outer: Future[Attempt] = Future()
        task = replace(task, store=self._store, engine=self.name, folder="")
        with self._lock:
            self._waiting[outer] = task
        try:
            executor = self._client.get_executor(
                pure=False, retries=0, resources=self._demand(task.stage)
            )
            inner = executor.submit(_run, task, self._plugin)
            inner.add_done_callback(lambda done: self._pass_on(done, outer))
            # What is given up, maybe already, is to run for nobody.
            outer.add_done_callback(lambda _: inner.cancel())
        except Exception as error:
            self._settle(outer, error=EngineGone(f"{self.name}: {type(error).__name__}: {error}"))
        return outer

    def _pass_on(self, inner: Future[Attempt], outer: Future[Attempt]) -> None:
        if inner.cancelled():  # by a client that lost its scheduler
            self._settle(outer, error=EngineGone(f"{self.name}: the scheduler has gone"))
        elif error := inner.exception():
            self._settle(outer, error=error)
        else:
            self._settle(outer, inner.result())

    def _settle(
        self, outer: Future[Attempt], attempt: Attempt | None = None, error: Any = None
    ) -> None:
        with self._lock:
            self._waiting.pop(outer, None)
        with contextlib.suppress(InvalidStateError):  # it was given up already
            if error is None:
                outer.set_result(attempt)  # type: ignore[arg-type]
            else:
                outer.set_exception(error)

    def _watch(self) -> None:
        """Give up what waits where nobody has been there to run it for too long."""
        seen = dict.fromkeys(RESOURCES, time.monotonic())
        while not self._over.wait(_ROUND):
            for stage, last in seen.items():
                if self._client.status == "running" and self._count(stage):
                    seen[stage] = time.monotonic()
                elif time.monotonic() - last > self._patience:
                    self._give_up(stage)

    def _give_up(self, stage: str) -> None:
        with self._lock:
            left = [outer for outer, task in self._waiting.items() if task.stage == stage]
        who = "worker" if self._client.status == "running" else "scheduler"
        said = f"{self.name}: no {who} for the {stage.upper()} stage for {self._patience:g} s"
        for outer in left:
            self._settle(outer, error=EngineGone(said))

    def stop(self, *, at_once: bool = False) -> None:
        """End what runs, or kill it, on every worker, without waiting for their answers."""

        def ask() -> None:
            with contextlib.suppress(Exception):  # a worker that is gone runs nothing
                self._client.run(_stop, self._plugin, at_once, on_error="ignore")

        threading.Thread(target=ask, daemon=True).start()

    def close(self) -> None:
        """Leave nothing of this coordinator with the workers."""
        self._over.set()
        self._watchdog.join()
        with contextlib.suppress(Exception):
            self._client.unregister_worker_plugin(self._plugin)
