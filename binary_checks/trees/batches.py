"""Work on many members in batches, on several threads if the machine has several cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context

from binary_checks.model import Progress, TreeEntry, Visited

_SIZE = 8 << 20  # bytes of members that a thread reads in one task
_THREADS = 4  # more threads would only wait for the interpreter's lock
_PATIENCE = 0.1  # seconds between two reports of progress

Batch = list[int]


def visit_all(
    entries: Sequence[TreeEntry], visit: Callable[[int], Visited], progress: Progress | None
) -> list[Visited]:
    """Visit every entry, given its index, on several threads; return the results in order.

    ``progress`` is called in the calling thread with the bytes read so far and the bytes in all.
    """
    batches = list(make_batches(entries))
    total = sum(entry.size for entry in entries)
    done = [0] * len(batches)  # bytes that each batch has read
    visited: dict[int, Visited] = {}

    def visit_batch(number: int) -> None:
        for index in batches[number]:
            visited[index] = visit(index)
            done[number] += entries[index].size

    def report() -> None:
        if progress is not None:
            progress(sum(done), total)

    threads = min(_THREADS, count_cores(), len(batches))
    if threads > 1:
        _run_threaded(visit_batch, len(batches), threads, report)
    else:
        for number in range(len(batches)):
            visit_batch(number)
            report()
    return [visited[index] for index in range(len(entries))]


def make_batches(entries: Sequence[TreeEntry]) -> Iterator[Batch]:
    """Yield batches of indexes, beginning with the largest members.

    Otherwise a large member could be started last, and be read while the other threads are idle.
    """
    batch: Batch = []
    size = 0
    for index in sorted(range(len(entries)), key=lambda index: -entries[index].size):
        batch.append(index)
        size += entries[index].size
        if size >= _SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def count_cores() -> int:
    """Return the number of cores that this process may use, or else of all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_threaded(
    work: Callable[[int], None], count: int, threads: int, report: Callable[[], None]
) -> None:
    """Call ``work`` with each number below ``count``, and ``report`` in between."""
    # small packages have one batch and need no pool
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(threads, "binary-checks") as pool:
        try:
            numbers = range(count)
            for future in [pool.submit(copy_context().run, work, each) for each in numbers]:
                while not wait((future,), _PATIENCE).done:
                    report()
                future.result()
                report()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
