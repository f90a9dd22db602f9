"""Work on many members in batches, on several threads where the machine has several cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from binary_checks.model.protocols import Progress, TreeEntry, Visited

_SIZE = 8 << 20  # bytes of members that one task of a thread reads
_THREADS = 4  # more would only wait for the interpreter's lock
_PATIENCE = 0.1  # seconds between two reports of progress

Batch = list[int]
_Result = TypeVar("_Result")


def visit_all(
    entries: Sequence[TreeEntry], visit: Callable[[int], Visited], progress: Progress | None
) -> list[Visited]:
    """Visit every entry, by its index, on several threads; the results are in their order.

    ``progress`` is called, in the calling thread, with how many of how many bytes were read.
    """
    batches = list(make_batches(entries))
    total = sum(entry.size for entry in entries)
    done = [0] * len(batches)  # bytes; each batch counts in its own place

    def work(number: int) -> list[tuple[int, Visited]]:
        found = []
        for index in batches[number]:
            found.append((index, visit(index)))
            done[number] += entries[index].size
        return found

    def report() -> None:
        if progress is not None:
            progress(sum(done), total)

    visited = dict(pair for batch in run_batches(batches, work, report) for pair in batch)
    return [visited[index] for index in range(len(entries))]


def make_batches(entries: Sequence[TreeEntry]) -> Iterator[Batch]:
    """Put the largest members first, so that none is begun when the others are done."""
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


def run_batches(
    batches: list[Batch], work: Callable[[int], _Result], report: Callable[[], None]
) -> Iterator[_Result]:
    """What the work makes of each batch, by its number, in order.

    In between ``report`` is called, in the calling thread.
    """
    threads = min(_THREADS, count_cores(), len(batches))
    run = _run_threaded if threads > 1 else _run_here
    return run(work, len(batches), threads, report)


def count_cores() -> int:
    """How many this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_here(
    work: Callable[[int], _Result], count: int, _: int, report: Callable[[], None]
) -> Iterator[_Result]:
    for number in range(count):
        yield work(number)
        report()


def _run_threaded(
    work: Callable[[int], _Result], count: int, threads: int, report: Callable[[], None]
) -> Iterator[_Result]:
    from concurrent.futures import ThreadPoolExecutor, wait  # small packages have one batch

    with ThreadPoolExecutor(threads, "binary-checks") as pool:
        try:
            for future in [pool.submit(work, number) for number in range(count)]:
                while not wait((future,), _PATIENCE).done:
                    report()
                yield future.result()
                report()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
