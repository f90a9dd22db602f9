"""Run the command of one attempt, and end everything that it started.

The beginning and the end of its output are kept, so that no amount of output fills the memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from binary_checks.errors import EXIT_CODES, BinaryChecksError
from binary_checks.fleet.night import ProcessEnd
from binary_checks.processes import SUSPENDED, OutputDrain, close_job, open_job

# Lifelines: pipes by which a command notices that the process that started it has died.
#
# The starter keeps one end open and never writes; the system closes it when the process ends.

VARIABLE = "BINARY_CHECKS_LIFELINE"
"""The descriptor of the command's end and the pipe's inode, because descriptors are reused.

Windows has no lifeline: there, a job object ends what was started.
"""
_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


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
        yield (theirs,), {VARIABLE: _name(theirs)}
    finally:
        os.close(theirs)
        os.close(ours)


def _name(descriptor: int) -> str:
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


def watch_lifeline(named: str) -> None:
    """Terminate this process and its group when the process that started it dies.

    ``named`` is the value of the lifeline's variable. Processes that inherited only the variable,
    and not the pipe, do nothing.
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
        if os.getpgrp() == os.getpid():  # otherwise it would kill processes that are not its own
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


# Running a command with everything that it starts.

_LOG = 2 << 20  # bytes kept of a log, half of them its beginning
_GAP = "\n[... {} bytes left out ...]\n"
GRACE = 10.0  # seconds between the request to end and the kill
_ROUNDS = 20  # searches for processes, which may start others meanwhile
_OOM_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class StoppedError(BinaryChecksError):
    """Raised if the user who runs the night stopped an attempt; the attempt does not count."""


class RunningProcesses:
    """The running processes of all attempts, so that they can be ended together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Leader] = set()
        self.stopped = False

    @contextlib.contextmanager
    def watch(self, process: Leader) -> Iterator[None]:
        """Register the process as running until the block ends."""
        with self._lock:
            self._running.add(process)
            late = self.stopped
        if late:
            process.ask_to_end()
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask all processes to end, or kill them; processes that start later are ended, too."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.kill() if at_once else process.ask_to_end()


class Leader:
    """A process that leads a session. It gets no signal once its number may be reused."""

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
        self._lock = threading.Lock()
        self._gone = False

    def ask_to_end(self) -> None:
        """Ask `binary-checks` to end what it started and to clean up; kill it if it does not."""
        self._signal(lambda: os.kill(self.pid, signal.SIGTERM))
        timer = threading.Timer(GRACE, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """Kill the process and the rest of its process group (on Windows, of its job)."""
        self._signal(self._kill)

    def _kill(self) -> None:
        if sys.platform != "win32":
            os.killpg(self.pid, signal.SIGKILL)
        else:
            self._close_job()

    def _close_job(self) -> None:
        """End the job on Windows, as the system does if this process is killed."""
        job, self._job = self._job, 0
        if job:
            close_job(job)

    def _signal(self, send: Callable[[], None]) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if not self._gone:
                send()

    def reap(self) -> tuple[int, float, int]:
        """Wait until the process ends; return its status, CPU seconds and peak memory in bytes.

        The peak memory is that of the largest process. Windows reports neither time nor memory.
        """
        if sys.platform == "win32":
            status = self._process.wait()
            with self._lock:
                self._gone = True
                self._close_job()
            return status, 0.0, 0
        ended = None
        if hasattr(os, "waitid"):
            # As long as it is a zombie, its number is not reused, and its group can be killed.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:  # on macOS before Python 3.13
            ended = os.wait4(self.pid, 0)
        with self._lock:
            self._gone = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            _, status, usage = ended or os.wait4(self.pid, 0)
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
    running: RunningProcesses,
    began: Callable[[int], None],
) -> tuple[ProcessEnd, bytes]:
    """Run the command in the folder, in a session of its own; return its end and its log.

    At the time limit it is asked to end, and killed soon after. Raises OSError if it cannot be
    started, and StoppedError if it was ended from outside.
    """
    kills, start, expired = count_oom_kills(), time.monotonic(), threading.Event()
    with open_lifeline() as (descriptors, variables):
        process = Leader(command, folder, {**environment, **variables}, descriptors)
        output = OutputDrain(process.output, _LOG)
        _prefer_to_be_killed(process.pid)

        def expire() -> None:
            expired.set()
            process.ask_to_end()

        limit = threading.Timer(timeout, expire)
        limit.daemon = True
        with running.watch(process):
            limit.start()
            try:
                began(process.pid)
            except BaseException:
                process.kill()
                raise
            finally:
                status, cpu_seconds, peak_memory = process.reap()
                seconds = time.monotonic() - start
                limit.cancel()
        # after a regular exit, the command has ended its own processes
        if status not in EXIT_CODES:
            kill_carriers(str(folder))
        log = output.content(_GAP)
    if running.stopped:
        raise StoppedError("ended before it had a result")
    end = ProcessEnd(
        exit_status=status if status >= 0 else None,
        signal=max(-status, 0),
        timed_out=expired.is_set(),
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
