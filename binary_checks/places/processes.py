"""Runs one process with everything it starts, for a limited time, and leaves none of it behind.

What it writes is drained into a short memory, so that no amount of it fills a disk; standard
output is thrown away unless it is asked for.
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

from binary_checks.places.limits import Limits, Watcher, find_below, kill_below
from binary_checks.windows_job import SUSPENDED, close_job, open_job

# The conversation with a probe: what is asked, what it answers, and whether it was itself.
#
# The probe keeps its standard input and output for this alone and gives the package ``/dev/null``
# in their place; every line begins with a token that only the request names. An answer counts only
# with a nonce, which is sent once the probe has said that the package's part is over: a package
# that exits, execs, or writes to descriptors that it does not know, cannot have it.

_LONGEST_ANSWER = 16 << 20  # bytes
END = "end"
"""The stage of a probe whose work is over: the interpreter comes to its own end."""
LOST = 76
"""The exit status of a probe that can no longer be heard: its descriptors were closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What a probe said until its pipe ended."""

    answer: Mapping[str, Any] = field(default_factory=dict)  # empty when it said nothing sound
    finished: bool = False  # it gave this answer, with the nonce, at the end of its work
    ended: bool = False  # and the interpreter came to its own end afterwards


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLimit:
    """How long a probe may be at the stage that it last reported."""

    seconds: float
    end: float  # by time.monotonic()


class Conversation:
    """Asks one probe, and hears it in a thread of its own.

    ``stages`` are bounds in seconds, by the stage that the probe says it is at.
    """

    def __init__(
        self, request: Mapping[str, object], stages: Mapping[str, float] | None = None
    ) -> None:
        self.request = request
        self._stages, self._stage = stages or {}, ""
        self.staged = bool(self._stages)
        self.limit: StageLimit | None = None  # of the present stage, where it has a bound
        self._token, self._nonce = (secrets.token_hex(16).encode() for _ in range(2))
        self._known, self._finished, self._ended = b"", False, False
        self._thread: threading.Thread | None = None

    def begin(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Send the request and hear what comes back, until the pipe ends."""
        self._thread = threading.Thread(target=self._converse, args=(stdin, stdout), daemon=True)
        self._thread.start()

    def end(self, patience: float) -> Heard:
        """Give what was heard; a stranger who holds the pipe open is not waited for."""
        if self._thread is not None:
            self._thread.join(patience)
        answer = read_answer(self._known)
        finished = self._finished and bool(answer)
        return Heard(answer=answer, finished=finished, ended=finished and self._ended)

    def _converse(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), stdout, stdin:
            _send(stdin, self._token, json.dumps(self.request).encode())
            rest = b""
            while chunk := os.read(stdout.fileno(), 1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest if len(rest) <= _LONGEST_ANSWER else b""
                for line in lines:
                    self._hear(line.rstrip(b"\r"), stdin)

    def _hear(self, line: bytes, stdin: IO[bytes]) -> None:
        token, _, said = line.partition(b" ")
        if not secrets.compare_digest(token, self._token):
            return  # printed by something that ran before the probe
        kind, _, rest = said.partition(b" ")
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
    """Read what a probe said; empty when it is nothing, or nothing sound."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


# Runs one process with everything it starts, for a limited time, and leaves none of it behind.
#
# What it writes is drained into a short memory, so that no amount of it fills a disk; standard
# output is thrown away unless it is asked for.

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


# A control group of Linux around one probe, where we may make one: nothing else ends root's forks.
#
# RLIMIT_NPROC does not bind root, and a bomb of forks outruns everybody who counts.

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE = 15.0  # seconds in which what was killed must have gone: thousands take some
_ENTER = 'echo $$ > "$0"; exec "$@"'  # for a POSIX shell: $$ is its process, $0 the group's file


class ControlGroup:
    """A group that bounds the processes and threads in it; `close` ends them and removes it."""

    def __init__(self, folder: Path, tasks: int) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "pids.max").write_text(str(tasks), encoding="ascii")

    def enter(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that puts itself into the group before it becomes this one.

        Were it put there once it runs, what it forks before would stay outside.
        """
        return ("/bin/sh", "-c", _ENTER, str(self._folder / "cgroup.procs"), *command)

    def close(self) -> None:
        """End what is in it."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            for pid in self._list():
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
            time.sleep(0.01)

    def _list(self) -> tuple[int, ...]:
        try:
            text = (self._folder / "cgroup.procs").read_text(encoding="ascii")
        except OSError:
            return ()
        return tuple(int(line) for line in text.split() if line != "0")


def open_group(tasks: int) -> ControlGroup | None:
    """Make a group beside our own or below it; None for who may not, or has other limits."""
    if sys.platform == "linux" and os.geteuid() == 0:
        for parent in _find_parents():
            with contextlib.suppress(OSError):
                return ControlGroup(parent / f"binary_checks-{uuid.uuid4().hex}", tasks)
    return None


def _find_parents() -> Iterator[Path]:
    """Find where a group could be made that counts processes: of either version of cgroups."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers == "pids":
            yield _ROOT / "pids" / own.lstrip("/")
        elif not controllers:
            # One that has processes of its own hands no controller on to those below it.
            parent = _ROOT / own.lstrip("/").rpartition("/")[0]
            if "pids" in _read(parent / "cgroup.subtree_control").split():
                yield parent


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# Asks a debugger, where the host has one that may look, which native calls a process is in.

KERNEL = "kernel:"
"""Before the name of a function of Linux itself."""

# Both are read from Debian's packages of the same names; neither is needed.
_COMMANDS = {
    "eu-stack": ("-1", "-n", "32", "-p"),
    "gdb": ("-batch", "-nx", "-ex", "bt 32", "-p"),
}
_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+)? *(?:in )?(?P<what>.*)$", re.MULTILINE)
_NAMELESS = "(anonymous namespace)"
_LONGEST = 80  # characters of a function's name: C++'s have no end
_KERNEL_FRAME = re.compile(r"^\[<[0-9a-fx]+>\] (?P<name>\w+)", re.MULTILINE)
_TIMEOUT = 30.0  # seconds; gdb reads the symbols of every library that is loaded


def take_native_stack(pid: int) -> tuple[str, ...]:
    """The functions that the first thread of the process is in, innermost first.

    Where no debugger is there, or none that the system lets look, those of Linux itself that it
    waits in, each marked ("kernel:hrtimer_nanosleep"); empty where nothing is to be had.
    """
    for name, options in _COMMANDS.items():
        program = shutil.which(name)
        if program and (found := read_stack(_run((program, *options, str(pid))))):
            return found
    return tuple(f"{KERNEL}{name}" for name in _read_kernel_stack(Path(f"/proc/{pid}")))


def describe_lack(calls: tuple[str, ...]) -> str:
    """Say why a stack has no function of the process's own, and what helps; "" when it has."""
    if any(not name.startswith(KERNEL) for name in calls):
        return ""
    if os.name != "posix":
        return "native stacks are not available on Windows"
    if not any(map(shutil.which, _COMMANDS)):
        return "for the native stack install gdb, or eu-stack of elfutils"
    return "no native stack: the debugger could not look into the process"


def read_stack(text: str) -> tuple[str, ...]:
    """Read the names of functions from what a debugger wrote; of one without, the library's."""
    frames = (_read_frame(match["what"]) for match in _FRAME.finditer(text))
    return tuple(name[:_LONGEST] for name in frames if name)


def _read_frame(what: str) -> str:
    """Read "name (arguments) at file" or "?? () from library"."""
    if what.startswith("??"):
        library = what.partition(" from ")[2].rpartition("/")[2]
        return f"?? of {library}" if library else ""
    end = what.find("(", len(_NAMELESS) if what.startswith(_NAMELESS) else 0)
    return what[: end if end >= 0 else None].partition(" - ")[0].strip()


def _read_kernel_stack(process: Path) -> tuple[str, ...]:
    """Read where it waits in Linux: root sees all of it, others the function that it sleeps in."""
    for name, pattern in (("stack", _KERNEL_FRAME), ("wchan", re.compile(r"(?P<name>[a-z_]\w*)"))):
        with contextlib.suppress(OSError):
            text = (process / name).read_text(encoding="ascii", errors="replace")
            if found := tuple(match["name"] for match in pattern.finditer(text)):
                return found
    return ()


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT,
            cwd=Path(os.sep),
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
