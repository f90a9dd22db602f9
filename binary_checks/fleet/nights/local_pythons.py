"""Finds the interpreters of this host by version: on PATH, and where tools put several of them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from binary_checks.fleet.cells.axis_values import family_of

_PATIENCE = 20.0  # seconds in which an interpreter must have answered
_ASK = """
import sys, sysconfig
free = sysconfig.get_config_var("Py_GIL_DISABLED")
print("%d.%d" % sys.version_info[:2] + "t" * bool(free))
"""


@cache
def find_python(version: str) -> str:
    """The path of an interpreter of that version, 3.12 or 3.13t, that starts; "" without one."""
    for path in dict.fromkeys(_list_candidates(version)):
        if _says_version(path) == version:
            return path
    return ""


def is_here(system: str, architecture: str) -> bool:
    """Whether a cell's system is this host's, as far as its name goes."""
    own = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    if own == "linux" and system.startswith("musl") is (platform.libc_ver()[0] == "glibc"):
        return False
    same = {"amd64": "x86_64", "aarch64": "arm64"}
    machine = platform.machine().lower()
    return family_of(system) == own and same.get(architecture, architecture) == same.get(
        machine, machine
    )


def _list_candidates(version: str) -> Iterator[str]:
    """What may be one; the shims of version managers may not start."""
    yield sys.executable
    name = f"python{version}"
    if found := shutil.which(name):
        yield found
    bare = version.rstrip("t")
    free = "+freethreaded" if version.endswith("t") else ""
    tag = f"cp{bare.replace('.', '')}"
    roots = (
        (os.environ.get("PYENV_ROOT") or "~/.pyenv", f"versions/{bare}*/bin/{name}"),
        ("~/.local/share/uv/python", f"cpython-{bare}.*{free}-*/bin/{name}"),
        ("/opt/python", f"{tag}-{tag}{version[len(bare) :]}/bin/python"),  # manylinux's images
        (
            os.environ.get("RUNNER_TOOL_CACHE") or "/opt/hostedtoolcache",
            f"Python/{bare}.*/*/bin/{name}",
        ),
        (os.environ.get("LOCALAPPDATA") or "~", f"Programs/Python/Python{tag[2:]}*/python.exe"),
    )
    for root, pattern in roots:
        yield from sorted(map(str, Path(root).expanduser().glob(pattern)), reverse=True)


def _says_version(path: str) -> str:
    """What it says itself; "" where it does not start."""
    try:
        ended = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""
