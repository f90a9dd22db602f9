"""Engines run attempts: two queues, each an executor of threads or of a cluster's workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial

from binary_checks.errors import ProfileError
from binary_checks.fleet.night import CPU, GPU
from binary_checks.fleet.nights.coordinating import Engine
from binary_checks.fleet.nights.host_resources import count_gpus, open_host
from binary_checks.fleet.store import Store
from binary_checks.trees.batches import count_cores

_DASK = "dask:"


def open_engine(
    named: str, store: Store, jobs: int | None = None, gpus: int | None = None
) -> AbstractContextManager[Engine]:
    """Open the engine with that name, for ``jobs`` and ``gpus`` attempts at the same time.

    Raises ProfileError for an unknown name or a missing extra, and GatherError for a cluster that
    cannot be used.
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
    """Yield an engine with a thread for each running attempt."""
    queues = {CPU: ThreadPoolExecutor(jobs)}
    if gpus:
        queues[GPU] = ThreadPoolExecutor(gpus)
    with open_host(gpus) as host:

        def stop(at_once: bool) -> None:
            for queue in queues.values():
                queue.shutdown(wait=False, cancel_futures=True)
            host.stop.make(at_once=at_once)

        try:
            yield Engine(name="local", queues=queues, run=partial(host.run, store=store), stop=stop)
        except BaseException:
            stop(False)
            raise
        finally:
            for queue in queues.values():
                queue.shutdown(cancel_futures=True)
