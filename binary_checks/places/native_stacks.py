"""Asks a debugger, where the host has one that may look, which native calls a process is in."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

KERNEL = "kernel:"
"""Before the name of a function of Linux itself."""

# Both are read from Debian's packages of the same names; neither is needed.
_COMMANDS = {
    "eu-stack": ("-1", "-n", "32", "-p"),
    "gdb": ("-batch", "-nx", "-ex", "bt 32", "-p"),
}
_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+)? *(?:in )?(?P<what>.*)$", re.MULTILINE)
_NAMELESS = "(anonymous namespace)"
_LONGEST = 80  # characters of a function's name: C++'s have no end
_KERNEL_FRAME = re.compile(r"^\[<[0-9a-fx]+>\] (?P<name>\w+)", re.MULTILINE)
_TIMEOUT = 30.0  # seconds; gdb reads the symbols of every library that is loaded


def take_native_stack(pid: int) -> tuple[str, ...]:
    """The functions that the first thread of the process is in, innermost first.

    Where no debugger is there, or none that the system lets look, those of Linux itself that it
    waits in, each marked ("kernel:hrtimer_nanosleep"); empty where nothing is to be had.
    """
    for name, options in _COMMANDS.items():
        program = shutil.which(name)
        if program and (found := read_stack(_run((program, *options, str(pid))))):
            return found
    return tuple(f"{KERNEL}{name}" for name in _read_kernel_stack(Path(f"/proc/{pid}")))


def describe_lack(calls: tuple[str, ...]) -> str:
    """Say why a stack has no function of the process's own, and what helps; "" when it has."""
    if any(not name.startswith(KERNEL) for name in calls):
        return ""
    if os.name != "posix":
        return "native stacks are not available on Windows"
    if not any(map(shutil.which, _COMMANDS)):
        return "for the native stack install gdb, or eu-stack of elfutils"
    return "no native stack: the debugger could not look into the process"


def read_stack(text: str) -> tuple[str, ...]:
    """Read the names of functions from what a debugger wrote; of one without, the library's."""
    frames = (_read_frame(match["what"]) for match in _FRAME.finditer(text))
    return tuple(name[:_LONGEST] for name in frames if name)


def _read_frame(what: str) -> str:
    """Read "name (arguments) at file" or "?? () from library"."""
    if what.startswith("??"):
        library = what.partition(" from ")[2].rpartition("/")[2]
        return f"?? of {library}" if library else ""
    end = what.find("(", len(_NAMELESS) if what.startswith(_NAMELESS) else 0)
    return what[: end if end >= 0 else None].partition(" - ")[0].strip()


def _read_kernel_stack(process: Path) -> tuple[str, ...]:
    """Read where it waits in Linux: root sees all of it, others the function that it sleeps in."""
    for name, pattern in (("stack", _KERNEL_FRAME), ("wchan", re.compile(r"(?P<name>[a-z_]\w*)"))):
        with contextlib.suppress(OSError):
            text = (process / name).read_text(encoding="ascii", errors="replace")
            if found := tuple(match["name"] for match in pattern.finditer(text)):
                return found
    return ()


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT,
            cwd=Path(os.sep),
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
