"""Run the command of one attempt, and end everything that it started.

The beginning and the end of its output are kept, so that no amount of output fills the memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from binary_checks.errors import EXIT_CODES, BinaryChecksError
from binary_checks.fleet.lifelines import open_lifeline
from binary_checks.fleet.night import ProcessEnd
from binary_checks.processes import SUSPENDED, OutputDrain, close_job, open_job

_LOG = 2 << 20  # bytes kept of a log, half of them its beginning
_GAP = "\n[... {} bytes left out ...]\n"
GRACE = 10.0  # seconds between the request to end and the kill
_GLANCE = 0.02  # seconds between two looks at a process
_ROUNDS = 20  # searches for processes, which may start others meanwhile
_OOM_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class StoppedError(BinaryChecksError):
    """Raised if the user who runs the night stopped an attempt; the attempt does not count."""


class StopRequest:
    """Whether all attempts shall end, also those that begin later."""

    def __init__(self) -> None:
        self.made, self.at_once = False, False

    def make(self, *, at_once: bool = False) -> None:
        """Ask that all attempts end, or that they are killed."""
        self.made, self.at_once = True, self.at_once or at_once


class Leader:
    """A process that leads a session. One thread watches and reaps it.

    As long as it is not reaped, its number is not reused, and its process group can be killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        descriptors: tuple[int, ...],
    ) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=SUSPENDED,
        )
        self._job = open_job(self._process)
        assert self._process.stdout is not None
        self.output = self._process.stdout
        self.pid = self._process.pid
        self._reaped: Any = (0, 0, None)

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        if sys.platform == "win32":
            return self._process.poll() is not None
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        self._reaped = os.wait4(self.pid, os.WNOHANG)  # on macOS before Python 3.13
        return bool(self._reaped[0])

    def wait(self, limit: float, stop: StopRequest) -> bool:
        """Wait until the process ends; return whether it reached its limit, by `time.monotonic`.

        At the limit, and if all attempts shall end, ask `binary-checks` to end what it started and
        to clean up; kill it if it does not.
        """
        timed_out, kill_at = False, math.inf
        while not self.has_ended():
            late = time.monotonic() > limit
            if (late or stop.made) and kill_at == math.inf:
                timed_out, kill_at = late, time.monotonic() + GRACE
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self.pid, signal.SIGTERM)
            if time.monotonic() > kill_at or stop.at_once:
                self.kill()
            time.sleep(_GLANCE)
        return timed_out

    def kill(self) -> None:
        """Kill the process and the rest of its process group (on Windows, of its job)."""
        if sys.platform == "win32":
            job, self._job = self._job, 0
            close_job(job)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, float, int]:
        """Kill what is left; return the status, CPU seconds and peak memory in bytes.

        The peak memory is that of the largest process. Windows reports neither time nor memory.
        """
        self.kill()
        if sys.platform == "win32":
            return self._process.wait(), 0.0, 0
        _, status, usage = self._reaped if self._reaped[0] else os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        unit = 1 if sys.platform == "darwin" else 1024
        seconds = usage.ru_utime + usage.ru_stime
        return self._process.returncode, seconds, usage.ru_maxrss * unit


def run_command(  # noqa: PLR0913 - what the process is given, and under what
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    stop: StopRequest,
    began: Callable[[int], None],
) -> tuple[ProcessEnd, bytes]:
    """Run the command in the folder, in a session of its own; return its end and its log.

    At the time limit it is asked to end, and killed soon after. Raises OSError if it cannot be
    started, and StoppedError if it was ended from outside.
    """
    kills, start, timed_out = count_oom_kills(), time.monotonic(), False
    with open_lifeline() as (descriptors, variables):
        process = Leader(command, folder, {**environment, **variables}, descriptors)
        output = OutputDrain(process.output, _LOG)
        _prefer_to_be_killed(process.pid)
        # what is told of the process may take long, which must not delay its end
        telling = threading.Thread(target=began, args=(process.pid,))
        telling.start()
        try:
            timed_out = process.wait(start + timeout, stop)
        finally:
            status, cpu_seconds, peak_memory = process.reap()
            telling.join()
        seconds = time.monotonic() - start
        # after a regular exit, the command has ended its own processes
        if status not in EXIT_CODES:
            kill_carriers(str(folder))
        log = output.content(_GAP)
    if stop.made:
        raise StoppedError("ended before it had a result")
    end = ProcessEnd(
        exit_status=status if status >= 0 else None,
        signal=max(-status, 0),
        timed_out=timed_out,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_memory=peak_memory,
        memory=_find_memory(),
        oom_kills=count_oom_kills() - kills,
    )
    return end, log


def _prefer_to_be_killed(pid: int) -> None:
    """If memory runs out, let the kernel kill the attempt rather than the coordinator."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("800", encoding="ascii")


def count_oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory; 0 if unknown."""
    try:
        found = _OOM_KILLS.search(Path("/proc/vmstat").read_bytes())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _find_memory() -> int:
    """Return this machine's memory in bytes; 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def kill_carriers(folder: str) -> None:
    """Kill every process that was started in the folder, or whose environment names the folder.

    A probe has a session of its own, and therefore survives if its `binary-checks` is killed.
    """
    if sys.platform != "linux":
        return
    for _ in range(_ROUNDS):
        found = list(_find_carriers(os.fsencode(folder)))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)  # until killed processes are no longer listed


def _find_carriers(folder: bytes) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of paths a second
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if _carries(f"/proc/{name}", folder):
                    yield int(name)


def _carries(process: str, folder: bytes) -> bool:
    if os.fsencode(Path(process, "cwd").readlink()).startswith(folder):
        return True
    return any(folder in Path(process, name).read_bytes() for name in ("environ", "cmdline"))
