"""Which processes descend from one, as Linux shows them, and how all of them are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_ROUNDS = 100  # of a hunt for processes that start others meanwhile
_GONE = frozenset("ZX")


def list_descendants(pid: int) -> tuple[int, ...]:
    """List the processes below that one, parents first; none where there is no Linux to ask."""
    if sys.platform != "linux":
        return ()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in _list_parents():
        children[parent].append(child)
    found, waiting = [], [pid]
    for each in waiting:
        below = sorted(children.pop(each, ()))
        found += below
        waiting += below
    return tuple(found)


def _list_parents() -> Iterator[tuple[int, int]]:
    """Yield each running process with its parent."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of paths a second
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                text = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2]
                state, parent = text.split(None, 2)[:2]
                if state.decode() not in _GONE:
                    yield int(name), int(parent)


def find_below(pid: int, depth: int) -> int:
    """Find the first child of the first child, so deep; the process itself where there is none."""
    for _ in range(depth):
        parents = list(_list_parents()) if sys.platform == "linux" else []
        pid = min((child for child, parent in parents if parent == pid), default=pid)
    return pid


def kill_below(pid: int) -> None:
    """End all that descends from a process: stopped first, so that none starts another."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = set(list_descendants(pid)) - stopped
        if not new:
            break
        _send(new, signal.SIGSTOP)
        stopped |= new
    _send(stopped, signal.SIGKILL)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
