"""The sandbox in which probes run: bubblewrap, if it works on this host."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.limits import MEMORY, TEMPORARY, Limits
from binary_checks.places.processes import Runner, Watch, ask_program

_PATIENCE = 60.0  # seconds for a confined interpreter to start
# True if the process is among the first of a namespace, and cannot read the environments of other
# processes.
_PROOF = """
import os
def tells(pid):
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            return bool(file.read())
    except OSError:
        return False
others = set(filter(str.isdecimal, os.listdir("/proc"))) - {os.readlink("/proc/self")}
print(os.getpid() < 5 and sum(map(tells, others)) < 4)
"""
_SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """The sandbox that keeps a probe from the user's files, processes and network."""

    program: str = ""  # the path of bubblewrap; "" without a sandbox
    # whether the sandbox has its own /proc; otherwise it shows the host's /proc
    own_proc: bool = True
    reason: str = "no sandbox was requested"  # why there is no sandbox
    contained: bool = False  # whether all packages run in containers, and therefore need no sandbox
    limits: Limits = field(default_factory=Limits)  # limits for commands, with or without a sandbox

    def describe(self) -> str:
        """Return the line about the sandbox for the header of a report."""
        network = " with the network" * self.limits.network
        if self.contained:
            return f"in containers{network}"
        if not self.holds:
            return f"not sandboxed: {self.reason}; packages have all rights of this user"
        shared = "" if self.own_proc else ", which shows this host's processes"
        return f"sandboxed by bubblewrap{network}{shared}"

    @property
    def holds(self) -> bool:
        """Whether there is a sandbox that works on this host."""
        return bool(self.program)

    def start(self, command: tuple[str, ...], limits: Limits) -> tuple[tuple[str, ...], Watch]:
        """Return the command that runs ``command`` with these limits, and how to watch it."""
        runner = Runner.ITSELF
        if self.holds:
            command = confine(command, limits, program=self.program, own_proc=self.own_proc)
            runner = Runner.SANDBOX
        elif os.name == "posix" and sys.executable:
            supervisor = str(_SCRIPTS / "supervisor.py")
            command = (sys.executable, "-I", "-S", supervisor, *command)
            runner = Runner.SUPERVISOR
        return command, Watch(runner=runner, limits=limits)

    def read_status(self, status: int | None) -> int | None:
        """Return the command's status as subprocess does; a sandbox reports signal N as 128 + N."""
        return 128 - status if self.holds and status and 128 < status < 160 else status


def choose_sandbox(mode: str, *, network: bool = False) -> Sandbox:
    """Choose a sandbox for ``--binary-sandbox``: bubblewrap if it works, otherwise none.

    Raises Unavailable if a sandbox is required but does not work.
    """
    found = Sandbox(reason="--binary-sandbox off") if mode == "off" else _find_bubblewrap()
    if mode == "require" and not found.holds:
        raise Unavailable(f"no sandbox works here: {found.reason}")
    return replace(found, limits=Limits(network=network))


def _find_bubblewrap() -> Sandbox:
    if sys.platform != "linux":
        return Sandbox(reason="there is no sandbox for this system")
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(reason="bwrap is not on PATH; install bubblewrap")
    lacks = []
    for own_proc in (True, False):
        lack = _try(program, own_proc=own_proc)
        if not lack:
            return Sandbox(program=program, own_proc=own_proc)
        lacks.append(lack)
    return Sandbox(reason=f"no bubblewrap: {lacks[0]}")


@lru_cache
def _try(program: str, *, own_proc: bool) -> str:
    """Start a confined interpreter; return "", or a line on why it is not confined."""
    python = Path(sys.executable)
    command = (str(python), "-I", "-S", "-c", _PROOF)
    try:
        limits = Limits(visible=find_visible(python))
        confined = confine(command, limits, program=program, own_proc=own_proc)
        printed = ask_program(confined, timeout=_PATIENCE, env={"LC_ALL": "C.UTF-8"})
    except GatherError as error:
        return str(error)
    return "" if printed == "True\n" else "a program in it sees processes of this host"


# Confinement in namespaces of Linux, made by bubblewrap.
#
# A confined command has its own processes, mounts, network and IPC. The system is read-only, and
# only named files of the user are visible. All files that the command writes are in memory, and
# disappear when it ends.

_GPU_DEVICES = ("nvidia*", "nvidia-caps", "dri", "kfd", "dxg")


def confine(
    argv: Sequence[str], limits: Limits, *, program: str = "bwrap", own_proc: bool = True
) -> tuple[str, ...]:
    """Return the command that runs ``argv`` confined, with the caller's environment and folder.

    ``own_proc`` states whether the sandbox has its own /proc; otherwise it shows the host's. The
    command exits with the status of ``argv``, or with 128 + N for the signal N. When it ends, all
    its processes end.
    """
    shared = () if limits.network else ("--unshare-net",)
    # In a container, Linux refuses to mount /proc if the container hides parts of its own /proc.
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
        # It is often a link to a file that the host's resolver writes.
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
    """Return the device nodes of GPUs and their drivers."""
    return tuple(sorted({path for name in _GPU_DEVICES for path in folder.glob(name)}))


@lru_cache
def _find_settings(folder: Path) -> tuple[Path, ...]:
    """Return the entries of /proc through which root changes settings of the system.

    Some of these (core_pattern) can be written without any capability.
    """
    return tuple(
        Path(entry.path)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if not entry.name.isdecimal()
        and not entry.is_symlink()
        and (entry.is_dir() or entry.stat().st_mode & stat.S_IWUSR)
    )


@lru_cache
def _find_secret(folder: Path) -> tuple[Path, ...]:
    """Return the files that only root may read: root in the sandbox could read them, too."""
    found: list[Path] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IROTH and mode & stat.S_IXOTH:
            found += _find_secret(Path(entry.path))
        elif not stat.S_ISLNK(mode) and not mode & stat.S_IROTH:
            found.append(Path(entry.path))
    return tuple(found)


# The files of the host that a confined interpreter sees: the system's, and the interpreter's.

SYSTEM = tuple(
    map(
        Path,
        (
            *(
                "/usr",
                "/bin",
                "/sbin",
                "/lib",
                "/lib32",
                "/lib64",
                "/libx32",
                "/etc",
                "/opt",
                "/sys",
            ),
            *("/nix/store", "/gnu/store", "/run/current-system", "/run/opengl-driver"),
        ),
    )
)
"""Folders that every process needs; they contain no files of users."""
_ASK = """
import os, sys
base = getattr(sys, "_base_executable", None) or sys.executable
found = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, os.path.dirname(base)]
print("\\n".join([base, *found]))
"""
_LINKS = 40  # as many links as Linux follows
_STANDARD_LIBRARY = re.compile(r"(?:python|pypy)\d")


def find_visible(python: Path) -> tuple[Path, ...]:
    """Return the folders and links that an interpreter needs in addition to the system's folders.

    Raises GatherError if the interpreter does not start.
    """
    found = dict.fromkeys(_find_own(Path(os.path.abspath(python))))  # noqa: PTH100 - links stay
    return tuple(path for path in found if not is_below(path, SYSTEM))


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether the path is one of these folders, or is below one of them."""
    return any(path.is_relative_to(folder) for folder in folders)


def _find_own(python: Path) -> Iterator[Path]:
    base, *prefixes = ask_python(python, _ASK).splitlines()
    for program in (python, Path(base)):
        for step in _follow_links(program):
            prefix = step.parent.parent
            if (prefix / "pyvenv.cfg").exists() or _holds_library(prefix):
                yield from _spellings(prefix)
            else:
                yield step
    for prefix in map(Path, prefixes):
        yield from _spellings(prefix)


@lru_cache
def ask_python(python: Path, code: str) -> str:
    """Return the output of code in an interpreter without site-packages (``-S``).

    Raises GatherError if the interpreter does not run, or the code fails or prints nothing.
    """
    reason = "it prints nothing"
    try:
        if printed := ask_program((python, "-I", "-S", "-c", code), timeout=_PATIENCE):
            return printed
    except GatherError as error:
        reason = str(error)
    raise GatherError(f"{python}: not a Python 3.8 or later that runs here: {reason}")


def _follow_links(program: Path) -> Iterator[Path]:
    """Yield the program's path, and every path through which its links lead."""
    for _ in range(_LINKS):
        yield program
        if not program.is_symlink():
            real = program.parent.resolve() / program.name
            if real != program:
                yield real
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _holds_library(prefix: Path) -> bool:
    folders = (prefix / "lib", prefix / "lib64")
    return any(_STANDARD_LIBRARY.match(each.name) for lib in folders for each in _list(lib))


def _list(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()


def _spellings(prefix: Path) -> Iterator[Path]:
    """Yield a prefix as written and resolved.

    If the prefix contains the home folder, yield only its folders ``bin``, ``lib``, ``lib64`` and
    ``include``.
    """
    home = Path.home().resolve()
    for spelling in dict.fromkeys((prefix, prefix.resolve())):
        if home.is_relative_to(spelling.resolve()):
            yield from (spelling / name for name in ("bin", "lib", "lib64", "include"))
        else:
            yield spelling
