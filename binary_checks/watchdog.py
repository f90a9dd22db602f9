"""The watchdog: one bound of CPU time and one of memory for each package, by its size.

A crafted package can make almost any reader and any check slow. Instead of a limit in each of them,
the watchdog interrupts the step, a fact or a check, in which a package exceeds what a package of
its size may take. Nothing else that the process does is interrupted.

On Linux and macOS a timer (ITIMER_PROF) interrupts Python code and regular expressions in the main
thread. It counts the CPU time of this process, so that waiting for a probe or a server costs
nothing. Other threads ask between two pieces of a file. On Windows, and if a step does not run in
the main thread, everything asks, between pieces, objects and steps.

Only ``binary-checks`` limits its memory, and only on Linux, because the limit applies to the whole
process: under ``pytest`` other people's tests run in it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from binary_checks.errors import TooLarge

SECONDS = 10.0
"""Seconds of CPU time for any package; most wheels take less than one second."""
SECONDS_PER_BYTE = 2 / 10e6
SECONDS_PER_OBJECT = 2 / 100
MEMORY = 500_000_000 + (128 << 20)
"""Bytes of memory for any package, and for the contents that are kept for its facts."""

_AGAIN = 1.0  # seconds of CPU time until the next interruption, if a finalizer swallowed the first
_Answer = TypeVar("_Answer")


class OutOfTime(BaseException):
    """A package's CPU time is over. No ``except Exception`` catches this."""


class Watchdog:
    """The bounds of one package; its facts and checks are steps, called one after another."""

    def __init__(self, factor: int = 1, *, owns_process: bool = False) -> None:
        """Begin with the bounds of an empty package, multiplied by ``factor``.

        ``owns_process`` allows to limit the memory of the whole process.
        """
        self._factor, self._owns_process = factor, owns_process
        self._bound = self._left = factor * SECONDS
        self._memory = factor * MEMORY
        self._began = 0.0  # CPU time of the process at the beginning of the current step
        self._watching = False  # whether the current step may be interrupted

    def call(self, step: str, function: Callable[..., _Answer], *arguments: Any) -> _Answer:
        """Call a function; ``step`` names it. Raises TooLarge if the package exceeds a bound.

        The steps after that have half of the bound together, then a quarter, and so on: no package
        takes more than twice its bound.
        """
        if self._left < 0:  # the step before exceeded the bound
            self._bound /= 2
            self._left = self._bound
        exceeded = ""
        over = threading.Event()
        outer = _current.set((self, over))
        self._began = time.process_time()
        data = self._limit_memory()
        stop = self._start_timer()
        try:
            self._watching = True
            answer = function(*arguments)
        except OutOfTime:
            exceeded = "CPU time"
        except MemoryError:
            if not data:  # there is no limit of ours
                raise
            exceeded = "memory"
        finally:
            self._watching = False  # first: after this, a late signal has no effect
            over.set()
            stop()
            _current.reset(outer)
            self._left = self._find_left()
            if data:
                resource.setrlimit(resource.RLIMIT_DATA, _find_usual_limit())
        if exceeded or self._left < 0:
            exceeded = exceeded or "CPU time"
            raise TooLarge(f"{step} takes more {exceeded} than the package's size allows")
        if data:  # a fact takes memory until the package is judged
            self._memory -= _read_data_size() - data
        return answer

    def go_on(self, more: float = 0.0) -> None:
        """Extend the bound by so many seconds, and raise OutOfTime if it is over.

        Several threads may call this; if two do at the same moment, one extension may be lost.
        """
        self._bound += self._factor * more
        self._left += self._factor * more
        if self._watching and self._find_left() < 0:
            raise OutOfTime

    def _find_left(self) -> float:
        return self._left - (time.process_time() - self._began)

    def _start_timer(self) -> Callable[[], None]:
        """Start to watch the time; return the function that ends this."""
        is_main = threading.current_thread() is threading.main_thread()
        # A handler that C code installed, which is shown as None, could not be restored.
        if (
            is_main
            and hasattr(signal, "setitimer")
            and signal.getsignal(signal.SIGPROF) is not None
        ):
            handler = signal.signal(signal.SIGPROF, self._interrupt)
            seconds = max(self._left, 0) + 0.01  # 0 would switch the timer off
            timer = signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)

            def restore() -> None:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.signal(signal.SIGPROF, handler)
                signal.setitimer(signal.ITIMER_PROF, *timer)

            return restore
        return lambda: None  # nothing interrupts the step

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        """Handle the signal. A step that imports a module is interrupted later."""
        while frame is not None and frame.f_code is not Watchdog.call.__code__:
            if frame.f_globals.get("__name__") == "importlib._bootstrap":
                return
            frame = frame.f_back
        self.go_on()

    def _limit_memory(self) -> int:
        """Limit the process's memory; return how much it takes now, or 0 if there is no limit."""
        if not self._owns_process or sys.platform != "linux":
            return 0
        data = _read_data_size()
        soft, hard = _find_usual_limit()
        if soft != resource.RLIM_INFINITY and soft <= data + self._memory:
            return 0
        resource.setrlimit(resource.RLIMIT_DATA, (data + self._memory, hard))
        return data


_current: ContextVar[tuple[Watchdog, threading.Event] | None] = ContextVar("step", default=None)
"""The watchdog of the current step, and the event of the step's end.

A thread has them if it runs in a copy of the step's context.
"""


def ask(size: int = 0, objects: int = 0) -> None:
    """Go on if there is time left, after so many more bytes and objects of the package.

    Only what was really read extends the bound: the list of an archive's members may lie.
    """
    current = _current.get()
    if current is not None:
        watchdog, over = current
        if over.is_set():  # the second interruption ended the wait for this thread
            raise OutOfTime
        watchdog.go_on(size * SECONDS_PER_BYTE + objects * SECONDS_PER_OBJECT)


if sys.platform == "linux":
    import resource

    def _read_data_size() -> int:
        """Return the size of the process's data in bytes, which RLIMIT_DATA limits."""
        pages = Path("/proc/self/statm").read_bytes().split()[5]
        return int(pages) * resource.getpagesize()

    @cache
    def _find_usual_limit() -> tuple[int, int]:
        """Return the process's own limit. It is restored before another process starts.

        That process would inherit the limit, but may need more: importing torch takes 1 GiB.
        """
        usual = resource.getrlimit(resource.RLIMIT_DATA)

        def lift(event: str, _: object) -> None:
            if event == "subprocess.Popen":
                resource.setrlimit(resource.RLIMIT_DATA, usual)

        sys.addaudithook(lift)
        return usual
