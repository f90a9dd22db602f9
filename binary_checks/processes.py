"""Our processes: hiding environment variables from packages, output, and ending process trees."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

# Hiding the user's environment from packages that run without a sandbox.
#
# Linux and macOS show a process's initial environment to every process of the user. The command
# therefore restarts itself with only those variables that hold no secret, and passes the others in
# memory.

SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
"""The option for ``-m`` and ``-c`` that keeps the current folder off the module search path.

Python 3.10 has only the stricter ``-I``, which also ignores PYTHONPATH and the user's
site-packages.
"""
_DESCRIPTOR = "BINARY_CHECKS_WITHHELD"
"""The variable with the file descriptor of the hidden variables."""
# Variables that Python, pytest, coverage and a terminal read, or that select a GPU.
_KEPT = re.compile(
    r"(?:PATH|HOME|SHELL|PWD|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|TERM|COLORTERM"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|PYTHON\w*|COVERAGE_\w+|COV_\w+"
    r"|PYTEST_DISABLE_PLUGIN_AUTOLOAD|VIRTUAL_ENV|XDG_CACHE_HOME|SOURCE_DATE_EPOCH"
    r"|LD_LIBRARY_PATH|DYLD_\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CC|CXX)"
)
_STARTED = "BINARY_CHECKS_STARTED"
"""The variable with the start of a command that has restarted, by the monotonic clock."""
_hidden: dict[str, str] = {}


def user_environment() -> Mapping[str, str]:
    """Return the user's complete environment, including hidden variables: for installers only."""
    return {**_hidden, **os.environ}


def list_hidden() -> dict[str, str]:
    """Return the hidden variables, which the caller passes to another process of ours."""
    return dict(_hidden)


def hide(variables: Mapping[str, str]) -> None:
    """Store hidden variables that were received from another process of ours."""
    _hidden.update(variables)


def find_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that may be secret: all except those known not to be."""
    return {name: value for name, value in environ.items() if not _KEPT.fullmatch(name)}


def receive_hidden() -> None:
    """Store the hidden variables that the process passed before its restart, if any."""
    descriptor = os.environ.pop(_DESCRIPTOR, "")
    if descriptor.isdecimal():
        try:
            with open(int(descriptor), "rb") as file:  # noqa: PTH123 - a descriptor has no path
                hide(json.load(file))
        except (OSError, ValueError):
            return


def take_start() -> float:
    """Return when the command began, by the monotonic clock, also if it has restarted since."""
    try:
        return float(os.environ.pop(_STARTED, ""))
    except ValueError:
        return time.monotonic()


def restart_without_secrets(started: float) -> None:
    """Restart the same command in a process whose initial environment holds no secrets.

    ``started`` is the command's start. Return if there are no secrets, or the command cannot be
    restarted.
    """
    secrets = find_secrets(os.environ)
    if os.name != "posix" or not sys.executable or not secrets or _hidden:
        return
    descriptor = _write(json.dumps(secrets).encode())
    kept = {name: value for name, value in os.environ.items() if name not in secrets}
    command = [sys.executable, *sys.orig_argv[1:]]
    passed = {_DESCRIPTOR: str(descriptor), _STARTED: str(started)}
    os.execve(sys.executable, command, {**kept, **passed})  # noqa: S606


def _write(text: bytes) -> int:
    """Write to an unnamed file, and return a descriptor that stays open across the restart."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("withheld", 0)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor


# Output: the head and the tail, so that no amount of output fills the memory.

_PATIENCE = 3.0  # seconds for reading what is left in a pipe


class OutputDrain(threading.Thread):
    """A thread that reads a pipe until it closes, and keeps the head and the tail."""

    def __init__(self, pipe: IO[bytes], kept: int) -> None:
        super().__init__(daemon=True)
        self._pipe, self._head, self._tail = pipe, bytearray(), bytearray()
        self._half, self._size = kept // 2, 0
        self.start()

    def run(self) -> None:
        """Read the pipe."""
        with self._pipe, contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), 65536):
                room = self._half - len(self._head)
                self._head += chunk[:room]
                self._tail += chunk[room:]
                self._size += len(chunk)
                del self._tail[: -self._half]

    def content(self, gap: str = "") -> bytes:
        """Return what was kept; do not wait for an escaped child that keeps the pipe open.

        ``gap`` stands for what was not kept, with {} for the number of its bytes.
        """
        self.join(_PATIENCE)
        left_out = self._size - len(self._head) - len(self._tail)
        between = gap.format(left_out).encode() if left_out else b""
        return bytes(self._head + between + self._tail)

    def text(self) -> str:
        """Return what was kept as text."""
        return self.content().decode("utf-8", "replace")


# Lifelines: pipes by which a command notices that the process that started it has died.
#
# The starter keeps one end open and never writes; the system closes it when the process ends.

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


# A job object of Windows, which ends a whole process tree when closed; other systems have none.
#
# A process is started suspended, so that it cannot start other processes before it is in the job.

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
    _KILL_ON_JOB_CLOSE = 0x2000

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    SUSPENDED = 0x4  # CREATE_SUSPENDED

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.SetInformationJobObject.argtypes = (
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
    )
    # Resume all threads by the process's handle: subprocess has closed the handle of the first
    # thread.
    _resume = ctypes.WinDLL("ntdll").NtResumeProcess
    _resume.argtypes = (wintypes.HANDLE,)

    def open_job(process: subprocess.Popen[bytes]) -> int:
        """Put a suspended process and all its future children into a new job, and resume it."""
        handle = int(process._handle)  # type: ignore[attr-defined]
        job: int = _kernel.CreateJobObjectW(None, None) or 0
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        _kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, ctypes.byref(limits), size)
        _kernel.AssignProcessToJobObject(job, handle)
        _resume(handle)
        return job

    def close_job(job: int) -> None:
        """Close the job, which kills the processes in it."""
        _kernel.CloseHandle(job)

else:
    SUSPENDED = 0

    def open_job(process: subprocess.Popen[bytes]) -> int:  # noqa: ARG001 - the twin's signature
        """Do nothing: other systems end all processes by their process group."""
        return 0

    def close_job(job: int) -> None:
        """Do nothing: there is no job to close."""
