"""Work on many members in batches, on several threads where the machine has several cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from binary_checks.model.protocols import Progress, TreeEntry, Visited

_SIZE = 8 << 20  # bytes of members that one task of a thread reads
_THREADS = 4  # more would only wait for the interpreter's lock
_PATIENCE = 0.1  # seconds between two reports of progress

Batch = list[int]


def visit_all(
    entries: Sequence[TreeEntry], visit: Callable[[int], Visited], progress: Progress | None
) -> list[Visited]:
    """Visit every entry, by its index, on several threads; the results are in their order.

    ``progress`` is called, in the calling thread, with how many of how many bytes were read.
    """
    batches = list(make_batches(entries))
    total = sum(entry.size for entry in entries)
    done = [0] * len(batches)  # bytes; each batch counts in its own place
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


def count_cores() -> int:
    """How many this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_threaded(
    work: Callable[[int], None], count: int, threads: int, report: Callable[[], None]
) -> None:
    """Call the work with each number below the count, and report in between."""
    from concurrent.futures import ThreadPoolExecutor, wait  # small packages have one batch

    with ThreadPoolExecutor(threads, "binary-checks") as pool:
        try:
            for future in [pool.submit(work, number) for number in range(count)]:
                while not wait((future,), _PATIENCE).done:
                    report()
                future.result()
                report()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
