"""Builds the root that a confined command sees, out of nothing but what it is told to show.

`namespaces.py` leans on it, in a mount namespace of its own; the words are bubblewrap's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from typing import Any

# mount(2), umount2(2)
PAIRS = ("--symlink", "--setenv")  # words with two arguments, beside those that bind
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
RECURSIVE, PRIVATE, DETACH = 16384, 1 << 18, 2
OPTIONS = {"ro": READ_ONLY, "nosuid": NO_SUID, "nodev": NO_DEV, "noexec": NO_EXEC}
OPTIONS.update(nosymfollow=256, noatime=1024, nodiratime=2048, relatime=1 << 21)
HIDDEN = (errno.EACCES, errno.ENOENT, errno.EINVAL)
ESCAPED = re.compile(rb"\\([0-7]{3})")

OLD, NEW = "/old", "/new"  # the host's root and the command's, while that is built
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

LIBC = ctypes.CDLL(None, use_errno=True)


def read_steps(words: list[str]) -> list[tuple[Any, list[str]]]:
    """Read what is to be done; a file of the host is named by where it really lies."""
    steps, size, rest = [], [], iter(words)
    for name in rest:
        if name == "--size":
            size = [next(rest)]
        elif name in STEPS:
            count = 2 if "bind" in name or name in PAIRS else 1
            arguments = [next(rest) for _ in range(count)]
            if "bind" in name:
                arguments[0] = os.path.realpath(arguments[0])
            steps.append((STEPS[name], arguments + size))
            size = []
    return steps


def enter_base() -> None:
    """Move into an empty root, with the host's in OLD and that of the command in NEW."""
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", NO_SUID | NO_DEV, "mode=0755")
    for path in (OLD, NEW):
        os.mkdir(f"/tmp{path}")
    mount(f"/tmp{NEW}", f"/tmp{NEW}", flags=BIND | RECURSIVE)
    call("pivot_root", b"/tmp", f"/tmp{OLD}".encode(), about="cannot change the root")
    os.chdir("/")


def enter_root(folder: str) -> None:
    """Move into the command's root, and leave nothing of the host's but what is mounted there."""
    call("umount2", OLD.encode(), DETACH, about="cannot leave the host's root")
    os.chdir(NEW)
    # The old one comes to lie over the new one, and is taken off.
    call("pivot_root", b".", b".", about="cannot change the root")
    call("umount2", b".", DETACH, about="cannot leave the first root")
    os.chdir("/")
    with contextlib.suppress(OSError):  # it may be hidden
        os.chdir(folder)


def mount_memory(path: str, size: str = "50%") -> None:
    """Mount an empty folder."""
    make_folder(path)
    mount("tmpfs", NEW + path, "tmpfs", NO_SUID | NO_DEV, f"mode=0755,size={size}")


def mount_proc(path: str) -> None:
    """Mount the processes of the namespace."""
    make_folder(path)
    mount("proc", NEW + path, "proc", NO_SUID | NO_DEV | NO_EXEC)


def mount_devices(path: str) -> None:
    """Mount the devices that every program expects."""
    mount_memory(path)
    make_folder(f"{path}/shm")
    for name in DEVICES:
        if os.path.exists(f"{OLD}/dev/{name}"):
            bind_device(f"/dev/{name}", f"{path}/{name}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{NEW}{path}/{name}")


def bind(source: str, path: str, flags: int = NO_SUID | NO_DEV) -> None:
    """Show what lies there on the host, with all that is mounted below."""
    if os.path.isdir(OLD + source):
        make_folder(path)
    elif not os.path.lexists(NEW + path):
        make_folder(os.path.dirname(path))
        os.close(os.open(NEW + path, os.O_CREAT | os.O_WRONLY, 0o444))
    mount(OLD + source, NEW + path, flags=BIND | RECURSIVE)
    restrict(NEW + path, flags, below=True)


def bind_read_only(source: str, path: str) -> None:
    """Show it so that nobody can write to it."""
    bind(source, path, READ_ONLY | NO_SUID | NO_DEV)


def bind_if_there(source: str, path: str) -> None:
    """Show it where there is such a thing."""
    if os.path.exists(OLD + source):
        bind_read_only(source, path)


def bind_device(source: str, path: str) -> None:
    """Show a device that may be used."""
    bind(source, path, NO_SUID)


def link(target: str, path: str) -> None:
    """Make a link, unless there is one."""
    make_folder(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.symlink(target, NEW + path)


def make_folder(path: str) -> None:
    """Make a folder and those above it."""
    os.makedirs(NEW + path, 0o755, exist_ok=True)


def forbid_writing(path: str) -> None:
    """Make a mount read-only, but not those below it."""
    restrict((NEW + path).rstrip("/"), READ_ONLY)


def restrict(path: str, flags: int, *, below: bool = False) -> None:
    """Add flags to a mount, or to all that are mounted below it, too."""
    mounts = list_mounts(path)
    if path not in mounts:
        raise OSError(
            errno.EINVAL, "it is not a mount point", f"cannot restrict {path[len(NEW) :]}"
        )
    for each, own in mounts.items():
        if each == path or below:
            try:
                mount("none", each, flags=REMOUNT | BIND | own | flags)
            except OSError as error:
                # Another mount hides it, or a folder that this user may not enter: from all.
                if each == path or error.errno not in HIDDEN:
                    raise


def list_mounts(path: str) -> dict[str, int]:
    """List what is mounted there and below, with flags that a user namespace may not take away."""
    found = {}
    with open(f"{OLD}/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split(b" ")
            where = os.fsdecode(ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), fields[4]))
            if where == path or where.startswith(f"{path}/"):
                found[where] = sum(OPTIONS.get(name, 0) for name in fields[5].decode().split(","))
    return found


def set_variable(name: str, value: str) -> None:
    """Set a variable of the command."""
    os.environ[name] = value


def mount(source: str, path: str, kind: str = "none", flags: int = 0, data: str = "") -> None:
    """Call mount, and say what for where it is refused."""
    shown = path[len(NEW) :] or "/" if path.startswith(NEW) else path
    encoded = (os.fsencode(each) for each in (source, path, kind))
    call("mount", *encoded, ctypes.c_ulong(flags), data.encode(), about=f"cannot mount {shown}")


def call(name: str, *arguments: object, about: str) -> None:
    """Call a function of the C library; raise OSError with what could not be done."""
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about)


STEPS = {
    "--proc": mount_proc,
    "--dev": mount_devices,
    "--dir": make_folder,
    "--symlink": link,
    "--bind": bind,
    "--ro-bind": bind_read_only,
    "--ro-bind-try": bind_if_there,
    "--dev-bind": bind_device,
    "--tmpfs": mount_memory,
    "--remount-ro": forbid_writing,
    "--setenv": set_variable,
}
