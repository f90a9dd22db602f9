"""Confines a command by Linux's own namespaces: ``python -I -S namespaces.py WORDS -- COMMAND``.

It stands in for bubblewrap where that is not installed and reads those of its words that
``confine`` writes. It ends as the command does, with 128 + N for the signal N.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from new_root import (  # type: ignore[import-not-found]  # noqa: E402 - it lies beside this file
    call,
    enter_base,
    enter_root,
    read_steps,
)

# unshare(2)
MOUNTS, UTS, IPC, USER, PROCESSES, NETWORK = (1 << bit for bit in (17, 26, 27, 28, 29, 30))
# prctl(2), capset(2), netdevice(7)
DEATH_SIGNAL, DUMPABLE, DROP_CAPABILITY, NO_NEW_PRIVILEGES = 1, 4, 24, 38
CAPABILITIES_3, CAPABILITIES = 0x20080522, 64
SET_INTERFACE, UP_AND_RUNNING = 0x8914, 0x41

IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE")


def main(words: list[str]) -> int:
    """Run the command in namespaces of its own, and return its status as a shell gives it."""
    separator = words.index("--")
    steps, command = read_steps(words[:separator]), words[separator + 1 :]
    folder, parent = os.getcwd(), os.getppid()
    leave_namespaces(network="--unshare-net" not in words[:separator])
    control(DEATH_SIGNAL, signal.SIGKILL)  # not before: a change of credentials undoes it
    if os.getppid() != parent:
        return 1  # it has ended meanwhile
    child = os.fork()
    if child == 0:
        os._exit(report(begin, steps, command, folder))
    drop_capabilities()
    return wait_for(child)


def report(what: Any, *arguments: object) -> int:
    """Call it, and say in one line what the system refused."""
    try:
        return int(what(*arguments))
    except OSError as error:
        os.write(2, f"{error.filename}: {error.strerror}\n".encode())
        return 1


def leave_namespaces(*, network: bool) -> None:
    """Leave the host's namespaces; the user stays who it is, and nobody else is there."""
    user, group = os.geteuid(), os.getegid()
    flags = MOUNTS | UTS | IPC | USER | PROCESSES | (0 if network else NETWORK)
    call("unshare", flags, about="cannot make namespaces")
    for name, text in (
        ("setgroups", b"deny"),  # or an ordinary user may map no group
        ("uid_map", b"%d %d 1" % (user, user)),
        ("gid_map", b"%d %d 1" % (group, group)),
    ):
        with open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(text)
    if not network:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            fcntl.ioctl(end, SET_INTERFACE, struct.pack("16sH14x", b"lo", UP_AND_RUNNING))


def begin(steps: list[tuple[Any, list[str]]], command: list[str], folder: str) -> int:
    """Be the first process of the namespace: build the root, run the command, reap orphans."""
    control(DEATH_SIGNAL, signal.SIGKILL)
    enter_base()
    for what, arguments in steps:
        what(*arguments)
    enter_root(folder)
    drop_capabilities()
    control(DUMPABLE, 1)  # the parent counts our files
    child = os.fork()
    if child == 0:
        os._exit(become(command))
    return wait_for(child)


def become(command: list[str]) -> int:
    """Be the command, with the signals that this Python ignores or takes as they were."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: cannot be run: {error.strerror}\n".encode())
    return 127


def drop_capabilities() -> None:
    """Give up all that a namespace's owner may do in it, and every way to have it back."""
    for number in range(CAPABILITIES):
        with contextlib.suppress(OSError):  # this Linux knows no more of them
            control(DROP_CAPABILITY, number)
    control(NO_NEW_PRIVILEGES, 1)
    call("capset", struct.pack("Ii", CAPABILITIES_3, 0), bytes(24), about="cannot drop privileges")


def wait_for(child: int) -> int:
    """Wait for the child and for every orphan before it; its status is as a shell gives it."""
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for standard in (0, 1, 2):  # the command's alone: they end with it
        with contextlib.suppress(OSError):
            os.close(standard)
    while True:
        ended, status = os.wait()
        if ended == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def control(option: int, value: int) -> None:
    """Call prctl."""
    call("prctl", option, *map(ctypes.c_ulong, (value, 0, 0, 0)), about="cannot call prctl")


if __name__ == "__main__":
    os._exit(report(main, sys.argv[1:]))
