"""What runs attempts: two queues, each an executor of threads here or of a cluster's workers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from binary_checks.errors import ProfileError
from binary_checks.fleet.attempts import CPU, GPU, Attempt
from binary_checks.fleet.nights.attempt_process import RunningProcesses
from binary_checks.fleet.nights.attempting import AttemptTask, run_attempt
from binary_checks.fleet.nights.gpu_devices import count_gpus, lend_device
from binary_checks.fleet.nights.night_folders import open_folder
from binary_checks.fleet.store import Store
from binary_checks.trees.batches import count_cores

_DASK = "dask:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """Runs attempts, and is believed in nothing: what counts is what the store has afterwards."""

    name: str  # as attempts name it
    queues: Mapping[str, Executor]  # by stage; without one for GPU work that is another host's
    run: Callable[[AttemptTask], Attempt]  # what the executors are given
    stop: Callable[[bool], None]
    """End what runs, or kill it where the argument is true: those attempts did not happen."""
    find_fault: Callable[[Collection[str]], str] = lambda _: ""
    """Why work of these stages, which waits or runs, will not be done any more; "" if it will."""
    folder: str = ""  # where attempts of this host make theirs; "": that is the workers' affair


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
    """A thread for each attempt that runs, which waits for its process."""
    running = RunningProcesses()
    queues = {CPU: ThreadPoolExecutor(jobs)}
    if gpus:
        queues[GPU] = ThreadPoolExecutor(gpus)

    def run(task: AttemptTask) -> Attempt:
        if task.stage != GPU:
            return run_attempt(task, store, running)
        with lend_device(gpus, running) as device:
            return run_attempt(replace(task, device=device), store, running)

    def stop(at_once: bool) -> None:
        for queue in queues.values():
            queue.shutdown(wait=False, cancel_futures=True)
        running.stop(at_once=at_once)

    with open_folder() as folder:
        try:
            yield Engine(name="local", queues=queues, run=run, stop=stop, folder=folder)
        except BaseException:
            stop(False)
            raise
        finally:
            for queue in queues.values():
                queue.shutdown(cancel_futures=True)
