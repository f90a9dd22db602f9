"""Run the command of one attempt, and end everything that it started.

Its log keeps the beginning and the end of the output, so that no amount of output fills a disk.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from binary_checks.errors import EXIT_CODES, BinaryChecksError
from binary_checks.fleet.night import ProcessEnd
from binary_checks.processes import SUSPENDED, close_job, open_job

# Lifelines: pipes by which a command notices that the process that started it has died.
#
# The starter keeps one end open and never writes; the system closes it when the process ends.

VARIABLE = "BINARY_CHECKS_LIFELINE"
"""The descriptor of the command's end and the pipe's inode, because descriptors are reused.

Windows has no lifeline: there, a job object ends what was started.
"""
_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifeline:
    """Descriptors and variables for a command that must not outlive this process."""

    descriptors: tuple[int, ...] = ()  # inherited by the command
    variables: tuple[tuple[str, str], ...] = ()


@contextlib.contextmanager
def open_lifeline() -> Iterator[Lifeline]:
    """Yield a lifeline, which ends with the block or with this process."""
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

LOG_HALF = 1 << 20  # bytes kept of a log's beginning, and of its end
GRACE = 10.0  # seconds between the request to end and the kill
_CHUNK = 1 << 16  # bytes
# seconds to read on after the process ended, if another process holds the pipe
_PIPE_RUNS_DRY = 3.0
_ROUNDS = 20  # searches for processes, which may start others meanwhile
_NONE = Lifeline()
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
        lifeline: Lifeline = _NONE,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **dict(lifeline.variables)},
            pass_fds=lifeline.descriptors,
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
    log: Path,
    environment: Mapping[str, str],
    timeout: float,
    running: RunningProcesses,
    began: Callable[[int], None],
) -> ProcessEnd:
    """Run the command in the folder, in a session of its own, with its output in the log.

    At the time limit it is asked to end, and killed soon after. Raises OSError if it cannot be
    started, and StoppedError if it was ended from outside.
    """
    kills, start = count_oom_kills(), time.monotonic()
    # The log is opened before the command could replace it by a pipe or a link.
    with log.open("xb", buffering=0) as opened, open_lifeline() as lifeline:
        process = Leader(command, folder, environment, lifeline)
        drain = LogDrain(process.output, opened)
        _prefer_to_be_killed(process.pid)
        with running.watch(process):
            limit = _TimeLimit(process, timeout)
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
        drain.finish(_PIPE_RUNS_DRY)
    if running.stopped:
        raise StoppedError("ended before it had a result")
    return ProcessEnd(
        exit_status=status if status >= 0 else None,
        signal=max(-status, 0),
        timed_out=limit.reached,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_memory=peak_memory,
        memory=_find_memory(),
        oom_kills=count_oom_kills() - kills,
    )


class _TimeLimit:
    """A timer that asks a process to end at its time limit."""

    def __init__(self, process: Leader, seconds: float) -> None:
        self.reached = False
        self._process = process
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.reached = True
        self._process.ask_to_end()

    def cancel(self) -> None:
        self._timer.cancel()


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


class LogDrain(threading.Thread):
    """A thread that copies a pipe's output to a log, keeping its beginning and its end."""

    def __init__(self, pipe: IO[bytes], log: IO[bytes], half: int = LOG_HALF) -> None:
        super().__init__(daemon=True)
        self._pipe, self._log, self._half = pipe, log, half
        self._tail, self._left_out = bytearray(), 0
        self._lock = threading.Lock()
        self._finished = False
        self.start()

    def run(self) -> None:
        """Read the pipe even if the log fails: a full disk must not block the process."""
        room = self._half
        with self._pipe, contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                with self._lock:
                    if self._finished:
                        return
                    head = chunk[:room]
                    self._append(head)
                    room -= len(head)
                    self._keep(chunk[len(head) :])

    def _append(self, chunk: bytes) -> None:
        if chunk:
            with contextlib.suppress(OSError):
                self._log.write(chunk)

    def _keep(self, chunk: bytes) -> None:
        self._tail += chunk
        if (extra := len(self._tail) - self._half) > 0:
            del self._tail[:extra]
            self._left_out += extra

    def finish(self, seconds: float) -> None:
        """Wait for the end of the pipe, at most ``seconds``, and write the end of the output."""
        self.join(seconds)
        with self._lock:
            self._finished = True
            if self._left_out:
                self._append(b"\n[... %d bytes left out ...]\n" % self._left_out)
            self._append(bytes(self._tail))
