"""Keeps the user's environment where a package that runs unconfined does not find it.

Linux and macOS show a process's environment, as it was at its start, to every process of the user:
so the command starts itself anew with what holds no secret, and hands itself the rest in memory.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping

DEAF = "-P" if sys.version_info >= (3, 11) else "-I"
"""The option for ``-m`` and ``-c`` with which a process hears nothing of the folder it starts in.

They put it first on the module search path. Python 3.10 knows only the stricter one, which leaves
out PYTHONPATH and the user's site-packages.
"""
_HANDED = "BINARY_CHECKS_WITHHELD"
"""The variable with the descriptor of what was withheld."""
# What Python, pytest, coverage and a terminal read, and what a GPU is chosen by.
_KEPT = re.compile(
    r"(?:PATH|HOME|SHELL|PWD|USER|LOGNAME|TZ|LANG|LANGUAGE|LC_\w+|TMPDIR|TEMP|TMP|TERM|COLORTERM"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|PYTHON\w*|COVERAGE_\w+|COV_\w+"
    r"|PYTEST_DISABLE_PLUGIN_AUTOLOAD|VIRTUAL_ENV|XDG_CACHE_HOME|SOURCE_DATE_EPOCH"
    r"|LD_LIBRARY_PATH|DYLD_\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CC|CXX)"
)
_held: dict[str, str] = {}


def user_environment() -> Mapping[str, str]:
    """Give the user's own environment, with what is withheld: for installers alone."""
    return {**_held, **os.environ}


def list_held() -> dict[str, str]:
    """List what is withheld, to be handed to another process of ours."""
    return dict(_held)


def hold(variables: Mapping[str, str]) -> None:
    """Keep these as withheld: what another process of ours handed over."""
    _held.update(variables)


def find_withheld(environ: Mapping[str, str]) -> dict[str, str]:
    """Find what may be a secret: all that is not known to be none."""
    return {name: value for name, value in environ.items() if not _KEPT.fullmatch(name)}


def take_back() -> None:
    """Hold what the process before us handed over, if it did."""
    descriptor = os.environ.pop(_HANDED, "")
    if descriptor.isdecimal():
        try:
            with open(int(descriptor), "rb") as file:  # noqa: PTH123 - a descriptor has no path
                hold(json.load(file))
        except (OSError, ValueError):
            return


def start_anew() -> None:
    """Become the same command again, in a process that began with nothing to be read in it.

    It returns where there is nothing to withhold, or nothing that could be started.
    """
    withheld = find_withheld(os.environ)
    if os.name != "posix" or not sys.executable or not withheld or _held:
        return
    descriptor = _write(json.dumps(withheld).encode())
    kept = {name: value for name, value in os.environ.items() if name not in withheld}
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, command, {**kept, _HANDED: str(descriptor)})  # noqa: S606


def _write(text: bytes) -> int:
    """Write it where no path leads, and return a descriptor that outlives the start."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("withheld", 0)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor
