"""Processes that run for a limited time and leave nothing behind, and the conversation with probes.

Only the head and the tail of a process's output are kept, so that no amount of output fills a disk
or the memory.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from binary_checks.errors import GatherError
from binary_checks.places.limits import Limits, Watcher, find_below, kill_below
from binary_checks.processes import SUSPENDED, OutputDrain, close_job, open_job

# The conversation with a probe.
#
# The probe reserves its standard input and output for this conversation, and gives the package
# ``/dev/null`` instead. Each line begins with a token that only the request contains. An answer
# counts only with a nonce, which is sent after the probe has reported that the package's part is
# over. So a package that exits, execs, or writes to descriptors that it does not own, cannot forge
# an answer.

_LONGEST_ANSWER = 16 << 20  # bytes
END = "end"
"""The stage in which a probe's work is done, and the interpreter shuts down."""
DISCONNECTED = 76
"""The exit status of a probe whose descriptors were closed, so that the probe cannot answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeMessages:
    """The messages that a probe sent until its pipe closed."""

    answer: Mapping[str, Any] = field(default_factory=dict)  # empty if there was no valid answer
    # whether the answer had the nonce, which a probe receives at the end of its work
    finished: bool = False
    ended: bool = False  # whether the interpreter then shut down normally


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLimit:
    """The time limit of a probe's current stage."""

    seconds: float
    end: float  # end of the stage, as of time.monotonic()


class Conversation:
    """A conversation with one probe, in a separate thread.

    ``stages`` maps names of stages, which the probe reports, to limits in seconds.
    """

    def __init__(
        self, request: Mapping[str, object], stages: Mapping[str, float] | None = None
    ) -> None:
        self.request = request
        self._stages, self._stage = stages or {}, ""
        self.staged = bool(self._stages)
        self.limit: StageLimit | None = None  # limit of the current stage, if it has one
        self._token, self._nonce = (secrets.token_hex(16).encode() for _ in range(2))
        self._known, self._finished, self._ended = b"", False, False
        self._thread: threading.Thread | None = None

    def begin(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Send the request, and read messages until the pipe closes."""
        self._thread = threading.Thread(target=self._converse, args=(stdin, stdout), daemon=True)
        self._thread.start()

    def end(self, patience: float) -> ProbeMessages:
        """Return the messages.

        Wait at most ``patience`` seconds, as another process may keep the pipe open.
        """
        if self._thread is not None:
            self._thread.join(patience)
        answer = read_answer(self._known)
        finished = self._finished and bool(answer)
        return ProbeMessages(answer=answer, finished=finished, ended=finished and self._ended)

    def _converse(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), stdout, stdin:
            _send(stdin, self._token, json.dumps(self.request).encode())
            rest = b""
            while chunk := os.read(stdout.fileno(), 1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest if len(rest) <= _LONGEST_ANSWER else b""
                for line in lines:
                    self._receive(line.rstrip(b"\r"), stdin)

    def _receive(self, line: bytes, stdin: IO[bytes]) -> None:
        token, _, message = line.partition(b" ")
        if not secrets.compare_digest(token, self._token):
            return  # the line was printed before the probe began
        kind, _, rest = message.partition(b" ")
        nonce, _, answer = rest.partition(b" ")
        own = secrets.compare_digest(nonce, self._nonce)
        if kind == b"known" and not self._finished:
            self._known = rest
            if self._stages:
                self._enter(str(read_answer(rest).get("stage", "")))
        elif kind == b"over":
            self._enter(END)
            _send(stdin, self._nonce)
        elif kind == b"answer" and own:
            self._known, self._finished = answer, True
        elif kind == b"end" and own:
            self._ended = True

    def _enter(self, stage: str) -> None:
        if stage != self._stage:
            seconds = self._stages.get(stage)
            limit = seconds and StageLimit(seconds=seconds, end=time.monotonic() + seconds)
            self._stage, self.limit = stage, limit or None


def _send(stdin: IO[bytes], *words: bytes) -> None:
    stdin.write(b" ".join(words) + b"\n")
    stdin.flush()


def read_answer(text: bytes) -> Mapping[str, Any]:
    """Parse a probe's JSON object; return an empty mapping if it is invalid."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


# Execution of a process and of all processes that it starts.

COOKIE = "BINARY_CHECKS_PROCESS"
_KEPT = 64 * 1024  # bytes of output: half of it the head, half the tail
_GLANCE = 0.5  # seconds between two checks of a probe's stage
_GRACE = 3.0  # seconds from SIGABRT to SIGKILL, and for reading what is left of messages


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessResult:
    """How a process ended, with its output."""

    status: int | None  # status as subprocess returns it; None: killed at its time limit
    stdout: str = ""
    stderr: str = ""
    # native functions on the stack at the time limit, innermost first, if requested
    calls: tuple[str, ...] = ()
    messages: ProbeMessages = field(default_factory=ProbeMessages)
    exceeded: str = ""  # the limit that the process exceeded, for the end of a sentence
    # seconds allowed for the stage in which it was killed; 0: no limit of a stage
    limit: float = 0.0


class Runner(enum.IntEnum):
    """The program that runs a command; the value is the number of processes above the command."""

    ITSELF = 0
    SUPERVISOR = 1  # the supervisor, which adopts orphans on Linux
    SANDBOX = 2  # a process above the first process of the namespaces; both end together


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """How to watch a command that is ended when it exceeds a limit."""

    runner: Runner
    limits: Limits


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
) -> ProcessResult:
    """Run a command in its own session, and kill all processes that are left at the end.

    At the time limit, or at the limit of the conversation's stage, send SIGABRT on POSIX, so that
    faulthandler prints the stacks, then kill the process. With ``calls``, first ask a debugger for
    the native stack. If the process is not a descendant of this one, ``abort`` sends the signal
    instead. With ``talk``, standard input and output belong to the conversation. ``watch`` limits
    how much all the processes together may use. Keep ``kept`` bytes of each output. Raises
    GatherError if the command cannot be started.
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
    except OSError as error:
        if group:
            group.close()
        raise GatherError(f"{started[0]}: cannot be run: {error.strerror or error}") from error
    job = open_job(process)
    assert process.stdout is not None
    assert process.stderr is not None
    stdout = None if talk else OutputDrain(process.stdout, kept)
    stderr = OutputDrain(process.stderr, kept)
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
        if sys.platform != "win32":
            # the session's first process group, even if its leader has already ended
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        close_job(job)
        _kill_escaped(cookie)
        process.kill()
        process.wait()
        if group:
            group.close()
    return ProcessResult(
        status=status,
        stdout=stdout.text() if stdout else "",
        stderr=stderr.text(),
        calls=stack,
        messages=talk.end(_GRACE) if talk else ProbeMessages(),
        exceeded=watcher.exceeded if watcher else "",
        limit=limit or 0.0,
    )


def ask_program(
    command: Sequence[str | Path], *, timeout: float, env: Mapping[str, str] | None = None
) -> str:
    """Return what a short command of the user's own programs prints, and limit only its time.

    Raises GatherError with the last line of its error output, or the reason why there is none.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GatherError(f"it does not answer within {timeout:g} s") from None
    except OSError as error:
        raise GatherError(f"it cannot be run: {error.strerror or error}") from error
    if done.returncode:
        raise GatherError(find_last_line(done.stderr, done.returncode))
    return done.stdout


def find_last_line(output: str, status: int | None) -> str:
    """Return the last line of an error output, or how the silent process ended."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ends with exit status {status} and says nothing"


def _kill_tree(process: subprocess.Popen[bytes], runner: Runner) -> None:
    """Kill a running process and its descendants; stop them all first, in case of a fork bomb."""
    if process.poll() is None:
        if runner is not Runner.SANDBOX:
            kill_below(process.pid)
        if runner is Runner.SUPERVISOR and sys.platform == "linux":
            # The supervisor adopts a process that was forked in the meantime, and ends it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
        process.kill()


def _wait(
    process: subprocess.Popen[bytes], timeout: float, talk: Conversation | None
) -> float | None:
    """Wait until the process ends, and return None.

    At a limit, return the number of seconds allowed: for the stage, or 0 for the process.
    """
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
    """Make the process print its stacks, and return its native stack."""
    pid = find_below(process.pid, depth)
    stack = read_native_stack(pid) if calls else ()
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
        _wait_for_end(process)
    return stack


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _kill_escaped(cookie: str) -> None:
    """Kill processes that started their own sessions; on Linux a variable identifies them."""
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
    """Return the name of the signal or Windows status that ended a process.

    Return "" for a normal exit.
    """
    if status < 0 and -status in {item.value for item in signal.Signals}:
        return signal.Signals(-status).name
    code = status & 0xFFFFFFFF
    if status >= 0 and code in _WINDOWS_STATUS:
        return _WINDOWS_STATUS[code]
    if status < 0 or code >= 0xC0000000:
        return f"signal {-status}" if -256 < status < 0 else f"status {code:#010x}"
    return ""


# A control group for one probe, if this process may create one: RLIMIT_NPROC does not apply to
# root, and a fork bomb is faster than a program that counts processes.

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE = 15.0  # seconds for killed processes to end; for thousands of processes this is slow
# for a POSIX shell: $$ is the shell's process, $0 the group's file
_ENTER = 'echo $$ > "$0"; exec "$@"'


class ControlGroup:
    """A control group that limits the number of processes and threads.

    `close` kills the processes and removes the group.
    """

    def __init__(self, folder: Path, tasks: int) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "pids.max").write_text(str(tasks), encoding="ascii")

    def enter(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that enters the group before it executes the given command.

        If a running process were moved instead, its earlier children would stay outside.
        """
        return ("/bin/sh", "-c", _ENTER, str(self._folder / "cgroup.procs"), *command)

    def close(self) -> None:
        """Kill the processes of the group, and remove it."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            listed = read_or_empty(self._folder / "cgroup.procs").split()
            # 0 stands for a process of another namespace, and for os.kill means our own group
            for pid in filter(None, map(int, listed)):
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
            time.sleep(0.01)


def open_group(tasks: int) -> ControlGroup | None:
    """Create a group next to this process's group or below it; return None without permission."""
    if sys.platform == "linux" and os.geteuid() == 0:
        for parent in _find_parents():
            with contextlib.suppress(OSError):
                return ControlGroup(parent / f"binary_checks-{uuid.uuid4().hex}", tasks)
    return None


def _find_parents() -> Iterator[Path]:
    """Yield the groups, of cgroups version 1 or 2, below which a group can limit processes."""
    for line in read_or_empty(Path("/proc/self/cgroup")).splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers == "pids":
            yield _ROOT / "pids" / own.lstrip("/")
        elif not controllers:
            # cgroup v2: a group that contains processes does not pass controllers to its children.
            parent = _ROOT / own.lstrip("/").rpartition("/")[0]
            if "pids" in read_or_empty(parent / "cgroup.subtree_control").split():
                yield parent


def read_or_empty(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# Native stacks, read by a debugger if the host has one that may attach.

# The output of both debuggers was examined as packaged by Debian; neither is required.
_COMMANDS = {
    "eu-stack": ("-1", "-n", "32", "-p"),
    "gdb": ("-batch", "-nx", "-ex", "bt 32", "-p"),
}
_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+)? *(?:in )?(?P<what>.*)$", re.MULTILINE)
_NAMELESS = "(anonymous namespace)"
_LONGEST = 80  # characters of a function's name; C++ names have no limit
_TIMEOUT = 30.0  # seconds for a debugger; gdb reads the symbols of all loaded libraries


def read_native_stack(pid: int) -> tuple[str, ...]:
    """Return the functions on the stack of the process's first thread, innermost first.

    Return nothing if no debugger can attach.
    """
    for name, options in _COMMANDS.items():
        program = shutil.which(name)
        if program and (found := read_stack(_run((program, *options, str(pid))))):
            return found
    return ()


def explain_missing_stack() -> str:
    """Explain why there is no native stack, and what to do."""
    if os.name != "posix":
        return "native stacks are not available on Windows"
    if not any(map(shutil.which, _COMMANDS)):
        return "for the native stack install gdb, or eu-stack of elfutils"
    return "no native stack: the debugger could not attach to the process"


def read_stack(text: str) -> tuple[str, ...]:
    """Return the function names in a debugger's output.

    For a frame without a function's name, return the library's name.
    """
    frames = (_read_frame(match["what"]) for match in _FRAME.finditer(text))
    return tuple(name[:_LONGEST] for name in frames if name)


def _read_frame(what: str) -> str:
    """Read "name (arguments) at file" or "?? () from library"."""
    if what.startswith("??"):
        library = what.partition(" from ")[2].rpartition("/")[2]
        return f"?? of {library}" if library else ""
    end = what.find("(", len(_NAMELESS) if what.startswith(_NAMELESS) else 0)
    return what[: end if end >= 0 else None].partition(" - ")[0].strip()


def _run(command: tuple[str, ...]) -> str:
    """Return what a debugger prints, even if it fails for some of the frames."""
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}
    with contextlib.suppress(GatherError):
        return run_process(command, cwd=Path(os.sep), env=environment, timeout=_TIMEOUT).stdout
    return ""
