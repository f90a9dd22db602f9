"""Asks a debugger, where the host has one that may look, which native calls a process is in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

# Both are read from Debian's packages of the same names; neither is needed.
_COMMANDS = {
    "eu-stack": ("-1", "-n", "32", "-p"),
    "gdb": ("-batch", "-nx", "-ex", "bt 32", "-p"),
}
_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+ +)?(?:in +)?(?P<name>[\w~][^\s(]*)", re.MULTILINE)
_TIMEOUT = 30.0  # seconds; gdb reads the symbols of every library that is loaded


def take_native_stack(pid: int) -> tuple[str, ...]:
    """The functions that the first thread of the process is in, innermost first.

    Empty where there is no debugger, or none that the system lets look.
    """
    for name, options in _COMMANDS.items():
        if program := shutil.which(name):
            return read_stack(_run((program, *options, str(pid))))
    return ()


def read_stack(text: str) -> tuple[str, ...]:
    """Read the names of functions from what a debugger wrote."""
    return tuple(match["name"] for match in _FRAME.finditer(text) if match["name"] != "??")


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
