"""Limits of a probe: which files it sees, how much it may use, and the watcher that enforces them.

RLIMIT_NPROC does not apply to root, and Linux has no limit of memory for several processes.
Therefore the parent measures, up to ten times a second, how much a probe and its descendants use.
On Windows a job object limits them (`processes.py`).
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

_INTERVAL = 0.1  # seconds between measurements
ENTRY = 512  # bytes that each file counts for at least
_SHARE = 0.05  # the largest share of one processor's time that measuring may take
_LARGE = 16 << 30  # bytes of memory that no import needs: torch and numba import in 1 GiB each
_RESIDENT = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_PROPORTIONAL = re.compile(r"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB", re.MULTILINE)
TEMPORARY = Path("/tmp")  # noqa: S108
MEMORY = (TEMPORARY, Path("/dev/shm"))  # noqa: S108 - POSIX's shared memory: OpenMP needs it
"""Folders in memory inside a sandbox, in addition to the probe's private one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The files that a probe sees, and how much the probe and all its descendants may use.

    Paths and devices apply only in a sandbox; without a sandbox a probe sees its user's files.
    """

    visible: tuple[Path, ...] = ()  # folders, files and links that the probe may read
    asks_python: bool = True
    """Whether to ask the interpreter, outside of the sandbox, which other files it needs."""
    writable: tuple[Path, ...] = ()  # folders of this host that probes may write and share
    # writable folders in which other processes write, too: their size is not limited
    services: tuple[Path, ...] = ()
    private: Path = TEMPORARY  # an empty folder for the probe only, in memory inside a sandbox
    network: bool = False
    gpu: bool = False  # whether GPU devices are visible
    processes: int = 512
    memory: int = 0  # bytes of anonymous and shared memory; 0: 80 % of the free memory
    disk: int = 1 << 30  # bytes in each folder that may be in memory
    shared: int = 0  # bytes in folders on the host's disk; 0: the same as `disk`

    @property
    def home(self) -> Path:
        """The home folder, inside the private folder."""
        return self.private / "home"

    @property
    def empty(self) -> Path:
        """The empty folder in which the probe starts."""
        return self.private / "empty"

    @property
    def tasks(self) -> int:
        """The number of processes and threads allowed; libraries start threads in each process."""
        return self.processes * 4


def limit_forks(limits: Limits) -> dict[str, int]:
    """Return RLIMIT_NPROC for the user, including processes that run already; empty for root."""
    if sys.platform != "linux" or os.geteuid() == 0:
        return {}
    running = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and folder.stat().st_uid == os.geteuid():
                running += sum(1 for _ in (folder / "task").iterdir())
    return {"NPROC": running + limits.tasks}


class Watcher:
    """A thread that watches a process and its descendants, and ends them if they exceed a limit."""

    def __init__(
        self, pid: int, limits: Limits, end: Callable[[], None], *, confined: bool
    ) -> None:
        """Start watching; ``confined`` states whether the process has its own mounts."""
        self.exceeded = ""  # the resource that exceeded its limit, for the end of a sentence
        self._pid, self._limits, self._end, self._confined = pid, limits, end, confined
        self._memory = limits.memory or choose_memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
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
        # the exact number takes longer to read than the upper bound
        counters = (_count_resident, _count_proportional)
        if all(sum(map(count, pids)) > self._memory for count in counters):
            return f"its processes take more than {format_bytes(self._memory)} of memory"
        if self._takes_more_disk(pids):
            return f"it writes more than {format_bytes(self._limits.shared or self._limits.disk)}"
        return ""

    def _takes_more_disk(self, pids: tuple[int, ...]) -> bool:
        """Return whether the files of the process exceed a limit.

        For folders in memory, count the files as well: a tmpfs limits only bytes, but each file
        uses memory, too.
        """
        limits = self._limits
        most = limits.shared or limits.disk
        if not self._confined:
            return takes_more_disk((limits.private, *limits.writable), most)
        own = (*(each for each in MEMORY if each not in limits.services), limits.private)
        return takes_more_disk(limits.writable, most) or any(
            count_files(pid, path) * ENTRY > limits.disk for pid in pids[:1] for path in own
        )


def count_files(pid: int, path: Path) -> int:
    """Count the files of a file system that only the process's mount namespace has at that path.

    Return 0 if the file system cannot be read. Also return 0 if it is this host's: on a busy host a
    sandbox is slow to mount its own file system, and until then the path leads to thousands of
    files of the host, which must not count.
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
    """Return a limit below the one at which the system or the container would kill a process."""
    free = [_LARGE, *_read_free()]
    return min(free) * 4 // 5 if len(free) > 1 else _LARGE


def _read_free() -> Iterator[int]:
    """Yield the free bytes that the system reports, and the free bytes of control groups."""
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


def _count_resident(pid: int) -> int:
    """Return resident bytes, a cheap upper bound: pages shared with a parent count twice."""
    return _sum_lines(Path(f"/proc/{pid}/status"), _RESIDENT) or 0


def _count_proportional(pid: int) -> int:
    """Return bytes of anonymous and shared memory; shared pages count once."""
    found = _sum_lines(Path(f"/proc/{pid}/smaps_rollup"), _PROPORTIONAL)
    # None: the process has just ended, Linux is too old, or the process is another user's.
    return _count_resident(pid) if found is None else found


def _sum_lines(path: Path, lines: re.Pattern[str]) -> int | None:
    with contextlib.suppress(OSError):
        found = lines.findall(path.read_text(encoding="utf-8", errors="replace"))
        return sum(map(int, found)) * 1024 if found else None
    return None


def takes_more_disk(folders: tuple[Path, ...], most: int) -> bool:
    """Return whether the files in these folders take more than ``most`` bytes."""
    taken = 0
    for folder in folders:
        for size in _list_sizes(folder):
            taken += size
            if taken > most:
                return True
    return False


def _list_sizes(folder: Path) -> Iterator[int]:
    """Yield the bytes of each file, at least `ENTRY`: a million empty files take space, too."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                taken = found.st_size if sys.platform == "win32" else found.st_blocks * 512
                yield max(taken, ENTRY)
                if entry.is_dir(follow_symlinks=False):
                    yield from _list_sizes(Path(entry.path))


def format_bytes(number: int) -> str:
    """Format a number of bytes: "1 GiB", "1.5 GiB", "64 MiB"."""
    unit, name = (1 << 30, "GiB") if number >= 1 << 30 else (1 << 20, "MiB")
    return f"{number / unit:.3g} {name}"


# Descendants of a process on Linux, and their end.

_ROUNDS = 100  # attempts to find all descendants while they start others
_GONE = frozenset("ZX")


def list_descendants(pid: int) -> tuple[int, ...]:
    """Return all descendants of a process, parents first; none on other systems than Linux."""
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
    """Yield the id and the parent's id of each running process."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of paths a second
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                text = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2]
                state, parent = text.split(None, 2)[:2]
                if state.decode() not in _GONE:
                    yield int(name), int(parent)


def find_below(pid: int, depth: int) -> int:
    """Return the descendant ``depth`` levels below; at each level take the first child.

    Stop at a process without children.
    """
    for _ in range(depth):
        parents = list(_list_parents()) if sys.platform == "linux" else []
        pid = min((child for child, parent in parents if parent == pid), default=pid)
    return pid


def kill_below(pid: int) -> None:
    """Kill all descendants of a process. Stop them first, so that none starts another process."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = set(list_descendants(pid)) - stopped
        if not new:
            break
        _send(new, signal.SIGSTOP)
        stopped |= new
    if stopped:  # never on Windows, which has no such signal
        _send(stopped, signal.SIGKILL)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
