"""A control group of Linux around one probe, where we may make one: nothing else ends root's forks.

RLIMIT_NPROC does not bind root, and a bomb of forks outruns everybody who counts.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

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
