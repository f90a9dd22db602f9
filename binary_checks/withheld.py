"""Hiding the user's environment from packages that run unconfined.

Linux and macOS show a process's initial environment to every process of the user. The command
therefore restarts itself with variables that hold no secret, and passes the others in memory.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping

DEAF = "-P" if sys.version_info >= (3, 11) else "-I"
"""The option for ``-m`` and ``-c`` that keeps the current folder off the module search path.

Python 3.10 has only the stricter ``-I``, which also ignores PYTHONPATH and the user's
site-packages.
"""
_HANDED = "BINARY_CHECKS_WITHHELD"
"""The variable with the file descriptor of the hidden variables."""
# Variables that Python, pytest, coverage and a terminal read, and that select a GPU.
_KEPT = re.compile(
    r"(?:PATH|HOME|SHELL|PWD|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|TERM|COLORTERM"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|PYTHON\w*|COVERAGE_\w+|COV_\w+"
    r"|PYTEST_DISABLE_PLUGIN_AUTOLOAD|VIRTUAL_ENV|XDG_CACHE_HOME|SOURCE_DATE_EPOCH"
    r"|LD_LIBRARY_PATH|DYLD_\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CC|CXX)"
)
_held: dict[str, str] = {}


def user_environment() -> Mapping[str, str]:
    """Return the user's complete environment, including hidden variables: for installers only."""
    return {**_held, **os.environ}


def list_held() -> dict[str, str]:
    """Return the hidden variables, to pass them to another process of ours."""
    return dict(_held)


def hold(variables: Mapping[str, str]) -> None:
    """Store hidden variables that another process of ours passed."""
    _held.update(variables)


def find_withheld(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that may be secret: all except those known not to be."""
    return {name: value for name, value in environ.items() if not _KEPT.fullmatch(name)}


def take_back() -> None:
    """Store the hidden variables that the previous process passed, if any."""
    descriptor = os.environ.pop(_HANDED, "")
    if descriptor.isdecimal():
        try:
            with open(int(descriptor), "rb") as file:  # noqa: PTH123 - a descriptor has no path
                hold(json.load(file))
        except (OSError, ValueError):
            return


def start_anew() -> None:
    """Restart the same command in a process whose initial environment holds no secrets.

    Return if there is nothing to hide, or the command cannot be restarted.
    """
    withheld = find_withheld(os.environ)
    if os.name != "posix" or not sys.executable or not withheld or _held:
        return
    descriptor = _write(json.dumps(withheld).encode())
    kept = {name: value for name, value in os.environ.items() if name not in withheld}
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, command, {**kept, _HANDED: str(descriptor)})  # noqa: S606


def _write(text: bytes) -> int:
    """Write to an unnamed file, and return a descriptor that survives the restart."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("withheld", 0)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor
