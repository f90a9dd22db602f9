"""On Windows, a job object that ends a whole process tree when closed; nothing on other systems.

A process is started suspended, so that it cannot start others before it is in the job.
"""

from __future__ import annotations

import subprocess
import sys

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
        """Do nothing: on other systems a session is killed by its process group."""
        return 0

    def close_job(job: int) -> None:
        """Do nothing."""
