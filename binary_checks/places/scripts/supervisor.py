"""Supervise a probe that runs without a sandbox: ``python -I -S supervisor.py COMMAND``.

The supervisor is the probe's parent process: a package that sends signals to its parent reaches
only the supervisor. On Linux the supervisor becomes the parent of all orphans, whatever sessions
and forks made them, so that none outlives the probe. It exits with the status of the command.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

SET_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE")


def supervise(command: list[str]) -> int:
    """Run the command, kill the processes that it leaves, and return its status like os.wait."""
    control(SET_CHILD_SUBREAPER, 1)
    control(SET_DEATH_SIGNAL, signal.SIGKILL)
    child = os.fork()
    if child == 0:
        control(SET_DEATH_SIGNAL, signal.SIGKILL)
        try:
            os.execv(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: cannot be run: {error.strerror}\n".encode())
            os._exit(127)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    status = wait_for(child)
    end_orphans()
    return status


def control(option: int, value: int) -> None:
    """Call prctl on Linux, if this Python has ctypes."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def wait_for(child: int) -> int:
    """Wait for the child; also reap orphans that end before it."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def end_orphans() -> None:
    """Kill the remaining children, and new orphans, until no child is left."""
    while True:
        for pid in list_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def list_children() -> list[int]:
    """Return the children of this process, read from /proc."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                if parent == os.getpid():
                    found.append(int(name))
    return found


def leave(status: int) -> None:
    """Exit with the command's status; if a signal ended the command, end by the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    leave(supervise(sys.argv[1:]))
