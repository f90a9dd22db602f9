"""Runs a command where it sees and reaches no more than it needs: in namespaces of Linux.

Processes, mounts, network and IPC are its own; the system is read-only, and of the user's files
there are only those that are named. What it writes goes to memory, and ends with it. bubblewrap
makes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from binary_checks.places.limits import MEMORY, TEMPORARY, Limits
from binary_checks.places.visible import SYSTEM, is_below

_GPU_DEVICES = ("nvidia*", "nvidia-caps", "dri", "kfd", "dxg")


def confine(
    argv: Sequence[str], limits: Limits, *, program: str = "bwrap", own_proc: bool = True
) -> tuple[str, ...]:
    """Return the command that runs ``argv`` confined; its environment and folder are the caller's.

    ``own_proc`` says whether it has a /proc of its own; else it reads the host's.
    It ends as ``argv`` does, with 128 + N for the signal N, and kills everything with it.
    """
    shared = () if limits.network else ("--unshare-net",)
    # In a container Linux refuses a new /proc where the container's own hides something.
    proc = ("--proc", "/proc") if own_proc else ("--ro-bind", "/proc", "/proc")
    return (
        *(program, "--die-with-parent", "--cap-drop", "ALL"),
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", *shared),
        *(*proc, "--dev", "/dev"),
        *_mount_host(limits),
        *_mount_devices(limits),
        *_mount_own(limits),
        *("--remount-ro", "/", "--", *argv),
    )


def _mount_host(limits: Limits) -> Iterator[str]:
    for folder in SYSTEM:
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for path in _find_secret(Path("/etc")) if os.geteuid() == 0 else ():
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        else:
            yield from ("--ro-bind", os.devnull, str(path))
    if limits.network:
        # Often a link to where the host's resolver writes.
        resolver = str(Path("/etc/resolv.conf").resolve())
        yield from ("--ro-bind-try", resolver, resolver)


def _mount_devices(limits: Limits) -> Iterator[str]:
    for path in _find_settings(Path("/proc")) if os.geteuid() == 0 else ():
        yield from ("--ro-bind-try", str(path), str(path))
    for device in find_devices() if limits.gpu else ():
        yield from ("--dev-bind", str(device), str(device))


def _mount_own(limits: Limits) -> Iterator[str]:
    own = () if is_below(limits.private, (TEMPORARY,)) else (limits.private,)
    for folder in (*MEMORY, *own):
        yield from ("--size", str(limits.disk), "--tmpfs", str(folder))
    yield from ("--remount-ro", "/dev")
    for folder in (limits.private, limits.home, limits.empty):
        yield from ("--dir", str(folder))
    seen = list(SYSTEM)
    for path in sorted({*limits.visible}, key=lambda each: len(each.parts)):
        if is_below(path, seen):
            continue
        if path.is_symlink() and path.is_file():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path.resolve()), str(path))
            seen.append(path)
    for path in (*limits.writable, *limits.services):
        yield from ("--bind", str(path), str(path))


def find_devices(folder: Path = Path("/dev")) -> tuple[Path, ...]:
    """Find the nodes of GPUs and of their drivers."""
    return tuple(sorted({path for name in _GPU_DEVICES for path in folder.glob(name)}))


@lru_cache
def _find_settings(folder: Path) -> tuple[Path, ...]:
    """Find what of the system root sets in /proc, some of it (core_pattern) by no capability."""
    return tuple(
        Path(entry.path)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if not entry.name.isdecimal()
        and not entry.is_symlink()
        and (entry.is_dir() or entry.stat().st_mode & stat.S_IWUSR)
    )


@lru_cache
def _find_secret(folder: Path) -> tuple[Path, ...]:
    """Find what only root may read: root in the sandbox owns the same files."""
    return tuple(_walk_secret(folder))


def _walk_secret(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IROTH and mode & stat.S_IXOTH:
            yield from _walk_secret(Path(entry.path))
        elif not stat.S_ISLNK(mode) and not mode & stat.S_IROTH:
            yield Path(entry.path)
