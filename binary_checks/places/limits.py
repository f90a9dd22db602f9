"""The limits of a place: what a probe sees and may take, and who ends it where it takes more.

RLIMIT_NPROC does not bind root and no limit of Linux's counts memory over processes, so the parent
counts, several times a second, what a probe and all that descends from it take. On Windows the job
does it (`windows_job.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_INTERVAL = 0.1  # seconds
ENTRY = 512  # bytes that a file counts for at least
_SHARE = 0.05  # of one processor's time, at most, that counting may take
_LARGE = 16 << 30  # bytes: torch imports in 1 GiB, numba in 1; a leak has no end
_RESIDENT = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_PROPORTIONAL = re.compile(r"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB", re.MULTILINE)
TEMPORARY = Path("/tmp")  # noqa: S108
MEMORY = (TEMPORARY, Path("/dev/shm"))  # noqa: S108 - POSIX's shared memory: OpenMP needs it
"""The folders that lie in memory where a probe is confined, beside its private one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one probe sees, reaches and may take, together with every process that it starts.

    Paths and devices are those of a sandbox; without one it sees and reaches what its user does.
    """

    visible: tuple[Path, ...] = ()  # folders, files and links that it reads
    asks_python: bool = True
    """Whether the interpreter is asked, outside of the sandbox, which files it needs, too."""
    writable: tuple[Path, ...] = ()  # folders of this host, which probes share
    services: tuple[Path, ...] = ()  # such in which others write, too: nothing there is counted
    private: Path = TEMPORARY  # an empty folder of its own, in memory where it is confined
    network: bool = False
    gpu: bool = False  # whether the devices of GPUs are there
    processes: int = 512
    memory: int = 0  # bytes, private or shared among them alone; 0: most of what is free
    disk: int = 1 << 30  # bytes in each folder that may lie in memory
    shared: int = 0  # bytes in those that lie on the host's disk; 0: as many

    @property
    def home(self) -> Path:
        """Its home, in its own folder."""
        return self.private / "home"

    @property
    def empty(self) -> Path:
        """The folder that it starts in."""
        return self.private / "empty"

    @property
    def tasks(self) -> int:
        """How many processes and threads there may be, with the threads of a library for each."""
        return self.processes * 4


def bound_forks(limits: Limits) -> dict[str, int]:
    """Bound the processes and threads of the user, those that run by now beside: not root's."""
    if sys.platform != "linux" or os.geteuid() == 0:
        return {}
    running = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and folder.stat().st_uid == os.geteuid():
                running += sum(1 for _ in (folder / "task").iterdir())
    return {"NPROC": running + limits.tasks}


class Watcher:
    """Looks at a process and all below it until it is told to stop, and ends them at a limit."""

    def __init__(
        self, pid: int, limits: Limits, end: Callable[[], None], *, confined: bool
    ) -> None:
        """Begin to look; ``confined`` says whether it has mounts of its own."""
        self.exceeded = ""  # what there was too much of, as the end of a sentence
        self._pid, self._limits, self._end, self._confined = pid, limits, end, confined
        self._memory = limits.memory or choose_memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = _INTERVAL
        while not self._stop.wait(pause):
            begun = time.thread_time()
            self.exceeded = self._find_excess()
            if self.exceeded:
                self._end()
                return
            pause = max(_INTERVAL, (time.thread_time() - begun) / _SHARE)

    def _find_excess(self) -> str:
        pids = list_descendants(self._pid)
        if len(pids) > self._limits.processes:
            return f"it runs more than {self._limits.processes} processes at once"
        if takes_more_memory(pids, self._memory):
            return f"its processes take more than {spell_bytes(self._memory)} of memory"
        if self._takes_more_disk(pids):
            return f"it writes more than {spell_bytes(self._limits.shared or self._limits.disk)}"
        return ""

    def _takes_more_disk(self, pids: tuple[int, ...]) -> bool:
        """Count files, too: in memory each takes some, and a size bounds their bytes alone."""
        limits = self._limits
        most = limits.shared or limits.disk
        if not self._confined:
            return takes_more_disk((limits.private, *limits.writable), most)
        own = (*(each for each in MEMORY if each not in limits.services), limits.private)
        return takes_more_disk(limits.writable, most) or any(
            count_files(pid, path) * ENTRY > limits.disk for pid in pids[:1] for path in own
        )


def count_files(pid: int, path: Path) -> int:
    """Count the files of the file system that a process has of its own there.

    0 where nobody can say, and where it is still this host's: on a busy host a sandbox takes its
    time, and the thousands of files of the host's file system are not the package's.
    """
    seen = Path(f"/proc/{pid}/root") / str(path).lstrip("/")
    try:
        if path.exists() and seen.stat().st_dev == path.stat().st_dev:
            return 0
        found = os.statvfs(seen)
    except OSError:
        return 0
    return found.f_files - found.f_ffree


def choose_memory() -> int:
    """Choose a limit below that at which the system or the container would kill somebody."""
    free = [_LARGE, *_read_free()]
    return min(free) * 4 // 5 if len(free) > 1 else _LARGE


def _read_free() -> Iterator[int]:
    """Yield the bytes that are free by the system's count, and by those of control groups."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None
        yield int(found[1]) * 1024
    for folder, most, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            limit = int(Path(folder, most).read_text(encoding="ascii"))
            yield max(limit - int(Path(folder, used).read_text(encoding="ascii")), 64 << 20)


def takes_more_memory(pids: tuple[int, ...], most: int) -> bool:
    """Whether the pages that are no file's are more; those that processes share count once."""
    return sum(map(_count_resident, pids)) > most and sum(map(_count_proportional, pids)) > most


def _count_resident(pid: int) -> int:
    """Count them cheaply, and too many where a child shares its parent's."""
    return _sum_lines(Path(f"/proc/{pid}/status"), _RESIDENT) or 0


def _count_proportional(pid: int) -> int:
    found = _sum_lines(Path(f"/proc/{pid}/smaps_rollup"), _PROPORTIONAL)
    # Nothing there: it has just ended, the Linux is an older one, or it is not ours to read.
    return _count_resident(pid) if found is None else found


def _sum_lines(path: Path, lines: re.Pattern[str]) -> int | None:
    with contextlib.suppress(OSError):
        found = lines.findall(path.read_text(encoding="utf-8", errors="replace"))
        return sum(map(int, found)) * 1024 if found else None
    return None


def takes_more_disk(folders: tuple[Path, ...], most: int) -> bool:
    """Whether the files in these folders take more."""
    taken = 0
    for folder in folders:
        for size in _list_sizes(folder):
            taken += size
            if taken > most:
                return True
    return False


def _list_sizes(folder: Path) -> Iterator[int]:
    """Yield what each file takes; an entry itself is counted, for a million empty ones are many."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                yield max(getattr(found, "st_blocks", 0) * 512, ENTRY)
                if entry.is_dir(follow_symlinks=False):
                    yield from _list_sizes(Path(entry.path))


def spell_bytes(number: int) -> str:
    """Spell a number of bytes: "1 GiB", "1.5 GiB", "64 MiB"."""
    unit, name = (1 << 30, "GiB") if number >= 1 << 30 else (1 << 20, "MiB")
    return f"{number / unit:.3g} {name}"


# Which processes descend from one, as Linux shows them, and how all of them are ended.

_ROUNDS = 100  # of a hunt for processes that start others meanwhile
_GONE = frozenset("ZX")


def list_descendants(pid: int) -> tuple[int, ...]:
    """List the processes below that one, parents first; none where there is no Linux to ask."""
    if sys.platform != "linux":
        return ()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in _list_parents():
        children[parent].append(child)
    found, waiting = [], [pid]
    for each in waiting:
        below = sorted(children.pop(each, ()))
        found += below
        waiting += below
    return tuple(found)


def _list_parents() -> Iterator[tuple[int, int]]:
    """Yield each running process with its parent."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of paths a second
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                text = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2]
                state, parent = text.split(None, 2)[:2]
                if state.decode() not in _GONE:
                    yield int(name), int(parent)


def find_below(pid: int, depth: int) -> int:
    """Find the first child of the first child, so deep; the process itself where there is none."""
    for _ in range(depth):
        parents = list(_list_parents()) if sys.platform == "linux" else []
        pid = min((child for child, parent in parents if parent == pid), default=pid)
    return pid


def kill_below(pid: int) -> None:
    """End all that descends from a process: stopped first, so that none starts another."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = set(list_descendants(pid)) - stopped
        if not new:
            break
        _send(new, signal.SIGSTOP)
        stopped |= new
    _send(stopped, signal.SIGKILL)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
