"""The engine for a cluster: attempts are tasks of Dask's workers; GPU work needs a GPU resource.

A worker runs an attempt just as a thread of this host does. When a worker dies, Dask repeats its
task on another, and Dask may report a finished task as lost. Dask's answers therefore do not count:
a task whose document is in the store only returns that document.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Client, WorkerPlugin, get_worker

from binary_checks import __version__
from binary_checks.errors import BinaryChecksError, GatherError, ProfileError
from binary_checks.fleet.night import CPU, GPU, Attempt
from binary_checks.fleet.nights.attempting import AttemptTask
from binary_checks.fleet.nights.coordinating import Engine
from binary_checks.fleet.nights.host_resources import AttemptHost, open_host
from binary_checks.fleet.store import open_store

RESOURCES = {CPU: "CPU", GPU: "GPU"}
"""Stage -> resource that workers declare for it. If no worker declares CPU, all run CPU stages."""
# seconds to wait for a scheduler, or for a worker that can run the waiting attempts
PATIENCE = 60.0
_CONNECT = 10.0  # seconds that the scheduler and the workers may take to answer


class _Client(Client):  # type: ignore[misc] # distributed has no types
    """A client that does not close itself at exit: it would wait for a missing scheduler."""

    def __del__(self) -> None:
        """Do nothing."""


class _Attempts(WorkerPlugin):  # type: ignore[misc] # distributed has no types
    """The attempts of one coordinator on a worker."""

    host: AttemptHost
    _open: contextlib.ExitStack

    def setup(self, worker: Any) -> None:
        """Make the folder; no process runs yet."""
        gpus = int(worker.state.total_resources.get(RESOURCES[GPU], 0))
        self._open = contextlib.ExitStack()
        self.host = self._open.enter_context(open_host(gpus))

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - its name there
        """Kill all processes and remove the folder."""
        self.host.stop.make(at_once=True)
        self._open.close()


def _run(plugin: str, store: str, task: AttemptTask) -> Attempt:
    """Run an attempt on a worker."""
    own: _Attempts = get_worker().plugins[plugin]
    return own.host.run(task, open_store(store))


def _stop(plugin: str, at_once: bool, dask_worker: Any) -> None:
    """End the coordinator's processes on a worker."""
    own = dask_worker.plugins.get(plugin)
    if own is not None:
        own.host.stop.make(at_once=at_once)


def _refuse(store: str, version: str) -> str:
    """Return why this worker cannot run attempts of a store and a version of ours, or ""."""
    if version != __version__:
        return f"it has binary_checks {__version__}, not {version}"
    try:
        open_store(store)
    except BinaryChecksError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def open_dask(address: str, store: str) -> Iterator[Engine]:
    """Yield the engine of a Dask scheduler, for the store at a URL.

    Raises GatherError if the scheduler or its workers do not answer or cannot run attempts, and
    ProfileError for an invalid address.
    """
    # this engine itself reports lost attempts
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    store = store if "://" in store else str(Path(store).absolute())
    with _connect(address) as client:
        _require_workers(client, address, store)
        with contextlib.closing(Cluster(client, f"dask:{address}")) as cluster:
            yield Engine(
                name=cluster.name,
                queues=cluster.queues,
                run=partial(_run, cluster.plugin, store),
                stop=cluster.stop,
                find_fault=cluster.find_fault,
            )


@contextlib.contextmanager
def _connect(address: str) -> Iterator[Client]:
    try:
        client = _Client(address, timeout=_CONNECT, set_as_default=False, name="binary-checks")
    except (OSError, TimeoutError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise GatherError(f"dask:{address}: no scheduler answers: {why}") from None
    except (ValueError, TypeError, ImportError) as error:
        raise ProfileError(f"--engine dask:{address}: not an address: {error}") from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # the scheduler may have gone
            client.close(timeout=_CONNECT)


def _require_workers(client: Client, address: str, store: str) -> None:
    """Raise GatherError unless there are workers, and each of them can run attempts."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
        found = client.run(_refuse, store, __version__, on_error="return")
    except (OSError, TimeoutError):
        raise GatherError(f"dask:{address}: the scheduler has no worker that answers") from None
    for worker, refusal in sorted(found.items()):
        where = f"dask:{address}: worker {worker}"
        if not isinstance(refusal, str):
            message = f"{type(refusal).__name__}: {refusal}"
            raise GatherError(
                f"{where}: binary-checks[dask,fleet] cannot run on this worker: {message}"
            )
        if refusal:
            raise GatherError(f"{where}: {refusal}")


class Cluster:
    """The workers, with a queue for each stage that some of them run."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self.plugin = f"binary-checks-{uuid.uuid4().hex}"
        self._client = client
        client.register_plugin(_Attempts(), name=self.plugin)
        declared = [stage for stage, resource in RESOURCES.items() if self._declares(resource)]
        # A task would wait for ever for a resource that no worker declares.
        self._demands = {
            stage: {RESOURCES[stage]: 1} if stage in declared else None
            for stage in dict.fromkeys((CPU, *declared))
        }
        self.queues: Mapping[str, Executor] = {
            stage: client.get_executor(pure=False, retries=0, resources=demand)
            for stage, demand in self._demands.items()
        }
        self._seen = dict.fromkeys(self.queues, time.monotonic())
        self._stopping: list[threading.Thread] = []

    def _declares(self, resource: str) -> bool:
        return any(each["resources"].get(resource) for each in self._workers().values())

    def _workers(self) -> Any:
        """Return the workers by address, as the scheduler reported them within two seconds.

        There are none once the scheduler has gone.
        """
        return self._client.scheduler_info(n_workers=-1).get("workers", {})

    def find_fault(self, stages: Collection[str]) -> str:
        """Return a message if attempts have waited too long without any worker for them, or ""."""
        now, connected = time.monotonic(), self._client.status == "running"
        for stage in self.queues:
            if stage not in stages or (connected and self._has_worker(stage)):
                self._seen[stage] = now
            elif now - self._seen[stage] > PATIENCE:
                who = "worker" if connected else "scheduler"
                lack = f"no {who} for the {stage.upper()} stage"
                return f"{self.name}: {lack} for {PATIENCE:g} s"
        return ""

    def _has_worker(self, stage: str) -> bool:
        """Return whether any worker can run the stage now; a dead worker may be replaced later."""
        return self._declares(RESOURCES[stage]) if self._demands[stage] else bool(self._workers())

    def stop(self, at_once: bool) -> None:
        """End or kill the processes on every worker, without waiting for answers."""

        def ask() -> None:
            with contextlib.suppress(Exception):  # a worker that has gone runs nothing
                self._client.run(_stop, self.plugin, at_once, on_error="ignore")

        self._stopping.append(threading.Thread(target=ask, daemon=True))
        self._stopping[-1].start()

    def close(self) -> None:
        """Remove this coordinator's plugin from the workers."""
        for each in self._stopping:
            each.join(_CONNECT)
        with contextlib.suppress(Exception):
            self._client.unregister_worker_plugin(self.plugin)
