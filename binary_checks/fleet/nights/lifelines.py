"""A pipe by which a command learns that whoever started it is dead, however that was killed.

The starter keeps one end open and never writes; the system closes it with the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

VARIABLE = "BINARY_CHECKS_LIFELINE"
"""The descriptor of the command's end, and the pipe's own number, for descriptors are used again.

Windows has none: there a job object ends what was started.
"""
_GRACE = 10.0  # seconds from the request to end to the killing


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifeline:
    """What a command is started with, so that it does not outlive this process."""

    descriptors: tuple[int, ...] = ()  # that it inherits
    variables: tuple[tuple[str, str], ...] = ()


@contextlib.contextmanager
def stretch_lifeline() -> Iterator[Lifeline]:
    """Until the block ends, or this process does."""
    if sys.platform == "win32":
        yield Lifeline()
        return
    theirs, ours = os.pipe()
    try:
        yield Lifeline(descriptors=(theirs,), variables=((VARIABLE, _name(theirs)),))
    finally:
        os.close(theirs)
        os.close(ours)


def _name(descriptor: int) -> str:
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


def hold_lifeline(named: str) -> None:
    """End this process in order once its starter is dead, and then with all that is left of it.

    ``named`` is the variable, which reaches processes that have not inherited the pipe, too.
    """
    descriptor = int(digits) if (digits := named.partition(":")[0]).isdecimal() else -1
    with contextlib.suppress(OSError, OverflowError):
        if sys.platform != "win32" and _name(descriptor) == named:
            threading.Thread(target=_wait, args=(descriptor,), daemon=True).start()


def _wait(descriptor: int) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        os.read(descriptor, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        if os.getpgrp() == os.getpid():  # else it would kill strangers
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
