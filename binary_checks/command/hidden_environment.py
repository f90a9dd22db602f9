"""Hiding the user's environment from packages that run without a sandbox.

Linux and macOS show a process's initial environment to every process of the user. The command
therefore restarts itself with only those variables that hold no secret, and passes the others in
memory.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time

from binary_checks.processes import hide, list_hidden

_DESCRIPTOR = "BINARY_CHECKS_WITHHELD"
"""The variable with the file descriptor of the hidden variables."""
# Variables that Python, pytest, coverage and a terminal read, or that select a GPU.
_KEPT = re.compile(
    r"(?:PATH|HOME|SHELL|PWD|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|TERM|COLORTERM"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|PYTHON\w*|COVERAGE_\w+|COV_\w+"
    r"|PYTEST_DISABLE_PLUGIN_AUTOLOAD|VIRTUAL_ENV|XDG_CACHE_HOME|SOURCE_DATE_EPOCH"
    r"|LD_LIBRARY_PATH|DYLD_\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CC|CXX)"
)
_STARTED = "BINARY_CHECKS_STARTED"
"""The variable with the start of a command that has restarted, by the monotonic clock."""


def receive_hidden() -> None:
    """Store the hidden variables that the process passed before its restart, if any."""
    descriptor = os.environ.pop(_DESCRIPTOR, "")
    if descriptor.isdecimal():
        try:
            with open(int(descriptor), "rb") as file:  # noqa: PTH123 - a descriptor has no path
                hide(json.load(file))
        except (OSError, ValueError):
            return


def take_start() -> float:
    """Return when the command began, by the monotonic clock, also if it has restarted since."""
    try:
        return float(os.environ.pop(_STARTED, ""))
    except ValueError:
        return time.monotonic()


def restart_without_secrets(started: float) -> None:
    """Restart the same command in a process whose initial environment holds no secrets.

    ``started`` is the command's start. Return if there are no secrets, or the command cannot be
    restarted.
    """
    secrets = {name: text for name, text in os.environ.items() if not _KEPT.fullmatch(name)}
    if os.name != "posix" or not sys.executable or not secrets or list_hidden():
        return
    descriptor = _write(json.dumps(secrets).encode())
    kept = {name: value for name, value in os.environ.items() if name not in secrets}
    command = [sys.executable, *sys.orig_argv[1:]]
    passed = {_DESCRIPTOR: str(descriptor), _STARTED: str(started)}
    os.execve(sys.executable, command, {**kept, **passed})  # noqa: S606


def _write(text: bytes) -> int:
    """Write to an unnamed file, and return a descriptor that stays open across the restart."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("withheld", 0)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor
