"""How Python and the pip beside us are called, and the environment that installers get."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from binary_checks.withheld import DEAF, user_environment

# What would lead the installer, or what it builds, to something that lies on this machine.
_LEAKS = ("PYTHON", "LD_", "DYLD_", "VIRTUAL_ENV", "CONDA_", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
PIP = (sys.executable, DEAF, "-m", "pip")
"""The pip beside us, deaf to a module of that name in the current folder."""

HELD_PIP = str(resources.files("binary_checks.places.scripts") / "held_pip.py")
"""The script that runs pip and keeps it from what none of its options do."""


def has_pip() -> bool:
    """Whether there is one."""
    return importlib.util.find_spec("pip") is not None


def choose_folder(neutral: Path) -> Path:
    """Where pip runs: in the user's folder, to which it is deaf and relative settings belong.

    On Windows programs are looked for there first, and pip asks rustc which one it is.
    """
    return Path() if os.name == "posix" else neutral


def make_installer_environment(
    private: Path | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The user's environment, for proxies and credentials, without what leads astray.

    Whatever the installer leaves in the system's folder for temporary files comes into the private
    one instead, which goes with us.
    """
    environ = user_environment() if environ is None else environ
    kept = {name: value for name, value in environ.items() if not name.startswith(_LEAKS)}
    places = {} if private is None else dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(private))
    return {**kept, **places, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
