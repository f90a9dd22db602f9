"""Our processes: the user's environment, output, and the jobs of Windows."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import threading
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
"""The option for ``-m`` and ``-c`` that keeps the current folder off the module search path.

Python 3.10 has only the stricter ``-I``, which also ignores PYTHONPATH and the user's
site-packages.
"""
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


# A job object of Windows, which ends a whole process tree when closed; other systems have none.
#
# A process is started suspended, so that it cannot start other processes before it is in the job.

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
    # Only its LimitFlags are set, to JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE. Before them are two times
    # (LARGE_INTEGER), after them sizes (size_t), numbers (DWORD) and the counts of IO_COUNTERS.
    _LIMITS = struct.pack("2qI2PIP2I6Q4P", 0, 0, 0x2000, *[0] * 16)

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
        _kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, _LIMITS, len(_LIMITS))
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
