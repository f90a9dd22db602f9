"""Runs one process with everything it starts, for a limited time, and leaves none of it behind.

What it writes is drained into a short memory, so that no amount of it fills a disk; standard
output is thrown away unless it is asked for.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from binary_checks.places.control_groups import open_group
from binary_checks.places.conversation import Conversation, Heard
from binary_checks.places.limits import Limits, Watcher
from binary_checks.places.native_stacks import take_native_stack
from binary_checks.places.process_tree import find_below, kill_below
from binary_checks.windows_job import SUSPENDED, close_job, open_job

COOKIE = "BINARY_CHECKS_PROCESS"
_KEPT = 64 * 1024  # bytes of output: its head and its tail, half each
_GLANCE = 0.5  # seconds between looks at the stage of a probe
_GRACE = 3.0  # seconds between asking for the stacks and killing, and for pipes to run dry


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a process ended."""

    status: int | None  # as subprocess gives it; None: killed at its time limit
    stdout: str = ""
    stderr: str = ""
    calls: tuple[str, ...] = ()  # native, innermost first, at the time limit, where it was asked
    heard: Heard = field(default_factory=Heard)  # of a conversation
    exceeded: str = ""  # of what it took too much, as the end of a sentence
    limit: float = 0.0  # seconds that it might be at the stage at which it was killed; 0: none


class Runner(enum.IntEnum):
    """What was started to run a command, by how far above the command it is."""

    ITSELF = 0
    SUPERVISOR = 1  # ours; all orphans come to it where the system is Linux
    SANDBOX = 2  # above the first process of the namespaces; all that is in them ends with it


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """How a command runs that is ended at its limits."""

    runner: Runner
    limits: Limits


class _Drain(threading.Thread):
    """Reads a pipe until it ends and remembers how it began and how it ended."""

    def __init__(self, pipe: IO[bytes], kept: int) -> None:
        super().__init__(daemon=True)
        self._pipe, self._head, self._tail = pipe, bytearray(), bytearray()
        self._half = kept // 2
        self.start()

    def run(self) -> None:
        with self._pipe, contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), 65536):
                room = self._half - len(self._head)
                self._head += chunk[:room]
                self._tail += chunk[room:]
                del self._tail[: -self._half]

    def text(self) -> str:
        """What it read; an escaped child that holds the pipe is not waited for."""
        self.join(_GRACE)
        return bytes(self._head + self._tail).decode("utf-8", "replace")


def run_process(  # noqa: PLR0913 - what the process is given, and under what
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    calls: bool = False,
    talk: Conversation | None = None,
    watch: Watch | None = None,
    abort: Callable[[], None] | None = None,
    kept: int = _KEPT,
) -> Ended:
    """Run the command in a session of its own and kill what is left of it at the end.

    At the time limit, or at that of the conversation's stage, a POSIX process is sent SIGABRT
    first, at which faulthandler shows its stacks; with ``calls`` a debugger is asked for the native
    one before. ``abort`` sends the signal where the process itself runs out of reach. With
    ``talk`` standard input and output are the conversation's; ``watch`` says what all of them
    together may take. Of what it writes ``kept`` bytes are. Raises OSError when the command cannot
    be started.
    """
    cookie = uuid.uuid4().hex
    started = tuple(str(part) for part in command)
    runner = watch.runner if watch else Runner.ITSELF
    group = open_group(watch.limits.tasks) if watch else None
    try:
        process = subprocess.Popen(
            group.enter(started) if group else started,
            cwd=cwd,
            env={**env, COOKIE: cookie},
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            creationflags=SUSPENDED,
        )
    except OSError:
        if group:
            group.close()
        raise
    job = open_job(process)
    assert process.stdout is not None
    assert process.stderr is not None
    stdout = None if talk else _Drain(process.stdout, kept)
    stderr = _Drain(process.stderr, kept)
    if talk is not None:
        assert process.stdin is not None
        talk.begin(process.stdin, process.stdout)
    watcher = None
    if watch:
        end = partial(_kill_tree, process, runner)
        confined = runner is Runner.SANDBOX
        watcher = Watcher(process.pid, watch.limits, end, confined=confined)
    try:
        limit = _wait(process, timeout, talk)
        stack: tuple[str, ...] = ()
        if limit is not None and abort is not None:
            abort()
            _wait_for_end(process)
        elif limit is not None:
            stack = _abort(process, calls=calls, depth=runner)
        status = process.returncode if limit is None else None
    finally:
        if watcher:
            watcher.stop()
        _kill_tree(process, runner)
        _kill_session(process.pid)
        close_job(job)
        _kill_escaped(cookie)
        process.kill()
        process.wait()
        if group:
            group.close()
    return Ended(
        status=status,
        stdout=stdout.text() if stdout else "",
        stderr=stderr.text(),
        calls=stack,
        heard=talk.end(_GRACE) if talk else Heard(),
        exceeded=watcher.exceeded if watcher else "",
        limit=limit or 0.0,
    )


def _kill_tree(process: subprocess.Popen[bytes], runner: Runner) -> None:
    """Kill a process that still runs, and what it started: of a bomb, nobody is met one by one."""
    if process.poll() is None:
        if runner is not Runner.SANDBOX:
            kill_below(process.pid)
        if runner is Runner.SUPERVISOR and sys.platform == "linux":
            # Who was forked meanwhile comes to the supervisor, and ends there.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
        process.kill()


def _wait(
    process: subprocess.Popen[bytes], timeout: float, talk: Conversation | None
) -> float | None:
    """Wait for its end; at a limit give the seconds of a stage's, or 0 for the whole process's."""
    end = time.monotonic() + timeout
    while True:
        limit = talk.limit if talk else None
        left = min(end, limit.end if limit else end) - time.monotonic()
        glance = _GLANCE if talk and talk.staged else left
        try:
            process.wait(max(0.0, min(left, glance)))
        except subprocess.TimeoutExpired:
            if left <= glance and (talk is None or talk.limit == limit):
                return limit.seconds if limit and limit.end < end else 0.0
        else:
            return None


def _abort(process: subprocess.Popen[bytes], *, calls: bool, depth: int) -> tuple[str, ...]:
    """Have it show its stacks, and end it."""
    pid = find_below(process.pid, depth)
    stack = take_native_stack(pid) if calls else ()
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
        _wait_for_end(process)
    return stack


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _kill_session(leader: int) -> None:
    """Kill the process group that the session began with, also after its leader has ended."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _kill_escaped(cookie: str) -> None:
    """Kill what left the group by a session of its own: Linux shows the cookie it inherited."""
    if sys.platform != "linux":
        return
    variable = f"{COOKIE}={cookie}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if variable in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)


_WINDOWS_STATUS = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC00000FD: "stack overflow",
    0xC0000135: "a needed DLL was not found",
    0xC0000139: "an entry point was not found in a DLL",
    0xC0000142: "a DLL failed to initialise",
    0xC0000374: "heap corruption",
    0xC0000409: "stack buffer overrun or fast fail",
    0xE06D7363: "an uncaught C++ exception",
}


def name_crash(status: int) -> str:
    """Name the signal or the Windows status that ended a process, "" when it left by itself."""
    if status < 0 and -status in {item.value for item in signal.Signals}:
        return signal.Signals(-status).name
    code = status & 0xFFFFFFFF
    if status >= 0 and code in _WINDOWS_STATUS:
        return _WINDOWS_STATUS[code]
    if status < 0 or code >= 0xC0000000:
        return f"signal {-status}" if -256 < status < 0 else f"status {code:#010x}"
    return ""
