"""Lifelines: pipes by which a command notices that the process that started it has died.

The starter keeps one end open and never writes; the system closes it when the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

LIFELINE = "BINARY_CHECKS_LIFELINE"
"""The descriptor of the command's end and the pipe's inode, because descriptors are reused.

Windows has no lifeline: there, a job object ends what was started.
"""
_PAUSE = 10.0  # seconds between SIGTERM and SIGKILL


@contextlib.contextmanager
def open_lifeline() -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """Yield what a command needs to end with the block or with this process.

    These are the descriptors that it inherits, and the variables that it gets.
    """
    if sys.platform == "win32":
        yield (), {}
        return
    theirs, ours = os.pipe()
    try:
        yield (theirs,), {LIFELINE: _name_pipe(theirs)}
    finally:
        os.close(theirs)
        os.close(ours)


def _name_pipe(descriptor: int) -> str:
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


def watch_lifeline(named: str) -> None:
    """Terminate this process and its group when the process that started it dies.

    ``named`` is the value of the lifeline's variable. Processes that inherited only the variable,
    and not the pipe, do nothing.
    """
    descriptor = int(digits) if (digits := named.partition(":")[0]).isdecimal() else -1
    with contextlib.suppress(OSError, OverflowError):
        if sys.platform != "win32" and _name_pipe(descriptor) == named:
            threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()


def _end_with(descriptor: int) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        os.read(descriptor, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PAUSE)
        if os.getpgrp() == os.getpid():  # otherwise it would kill processes that are not its own
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
