"""What runs attempts: threads over processes of this host, or the workers of a scheduler."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from queue import SimpleQueue
from typing import Protocol

from binary_checks.errors import GatherError, ProfileError
from binary_checks.fleet.attempts import GPU, Attempt
from binary_checks.fleet.nights.attempt_process import RunningProcesses
from binary_checks.fleet.nights.attempting import AttemptTask, run_attempt
from binary_checks.fleet.nights.gpu_devices import count_gpus, list_devices
from binary_checks.fleet.nights.leases import FOLDER_PREFIX
from binary_checks.fleet.store import Store
from binary_checks.trees.batches import count_cores

_DASK = "dask:"


class EngineGone(GatherError):
    """There is nothing left that could run an attempt: the night has to be gone on with later."""


class Engine(Protocol):
    """Runs attempts, and is believed in nothing: what counts is what the store has afterwards."""

    @property
    def name(self) -> str:
        """How attempts name it."""

    @property
    def folder(self) -> str:
        """Where attempts of this host make theirs; "" where that is the workers' affair."""

    def slots(self, stage: str) -> int:
        """How many attempts of a stage may run at once; 0: none ever can."""

    def submit(self, task: AttemptTask) -> Future[Attempt]:
        """Begin an attempt; its document is in the store before the future has its result.

        The future raises EngineGone where there is nothing left to run it.
        """

    def stop(self, *, at_once: bool = False) -> None:
        """End what runs, or kill it; those attempts did not happen."""


def open_engine(
    named: str, store: Store, jobs: int | None = None, gpus: int | None = None
) -> AbstractContextManager[Engine]:
    """The engine of that name, with so many attempts at once.

    Raises ProfileError for no name of one and for an extra that is not installed, GatherError for a
    cluster that cannot be used.
    """
    if named == "local":
        gpus = count_gpus() if gpus is None else gpus
        return _open_local(store, jobs or count_cores(), gpus)
    if not named.startswith(_DASK) or named == _DASK:
        raise ProfileError(f"--engine {named}: neither local nor dask:ADDRESS")
    try:
        from binary_checks.fleet.nights.dask_engine import open_dask
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install 'binary-checks[dask]'"
        raise ProfileError(f"--engine {named}: {reason}") from None
    return open_dask(named.removeprefix(_DASK), store.url)


@contextlib.contextmanager
def _open_local(store: Store, jobs: int, gpus: int) -> Iterator[Engine]:
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as folder:
        engine = LocalEngine(store, jobs, gpus, folder)
        try:
            yield engine
        except BaseException:
            engine.stop()
            raise
        finally:
            engine.close()


class LocalEngine:
    """A thread for each attempt that runs, which waits for its process."""

    name = "local"

    def __init__(self, store: Store, jobs: int, gpus: int, folder: str) -> None:
        self.folder = folder
        self._store, self._jobs, self._gpus = store, jobs, gpus
        self._running = RunningProcesses()
        self._pool = ThreadPoolExecutor(max_workers=jobs + gpus)
        self._devices = SimpleQueue[str]()
        for device in list_devices(gpus):
            self._devices.put(device)

    def slots(self, stage: str) -> int:
        """How many attempts of a stage may run at once."""
        return self._gpus if stage == GPU else self._jobs

    def submit(self, task: AttemptTask) -> Future[Attempt]:
        """Begin an attempt in a thread."""
        run = self._run_on_device if task.stage == GPU else self._run
        return self._pool.submit(run, task)

    def _run(self, task: AttemptTask) -> Attempt:
        return run_attempt(task, self._store, self._running)

    def _run_on_device(self, task: AttemptTask) -> Attempt:
        """Run it with a GPU of its own."""
        device = self._devices.get()
        try:
            return self._run(replace(task, device=device))
        finally:
            self._devices.put(device)

    def stop(self, *, at_once: bool = False) -> None:
        """End what runs, or kill it."""
        self._running.stop(at_once=at_once)

    def close(self) -> None:
        """Wait for the threads; whatever waits for one is not begun."""
        self._pool.shutdown(cancel_futures=True)
