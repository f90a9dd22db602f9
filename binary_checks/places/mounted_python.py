"""The interpreter of this host that is mounted into a container, where the image has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.containers import Container, Mounts
from binary_checks.places.visible import ask_python

_PREFIX = "/mnt/python"
_LIBRARIES = f"{_PREFIX}/lib"
_ASK = """
import json, os, sys, sysconfig
value = sysconfig.get_config_var
shared = value("Py_ENABLE_SHARED") and os.path.join(value("LIBDIR") or "", value("INSTSONAME"))
print(json.dumps({
    "program": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "prefix": sys.base_prefix,
    "library": os.path.dirname(os.path.abspath(os.__file__)),
    "shared": shared or "",
}))
"""
_FITS = """
import importlib, os, sys
left_out = {"_curses", "_curses_panel", "_dbm", "_gdbm", "_tkinter", "nis", "readline"}
folder = next((path for path in sys.path if path.endswith("lib-dynload")), "")
names = {name.partition(".")[0] for name in (os.listdir(folder) if folder else ())}
for name in sorted(names - left_out):
    try:
        if "test" not in name and not name.startswith("xx"):
            importlib.import_module(name)
    except ImportError as error:
        print(name + ": " + str(error))
"""
"""Names each module of the standard library that does not load, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MountedPython:
    """An interpreter, and its files that a container is given."""

    program: str  # in the container
    mounts: Mounts
    variables: Mapping[str, str]  # that it runs with


def mount_python(python: Path) -> MountedPython:
    """Name the files of an interpreter, and where they are read: its prefix can be moved.

    Only the program, the standard library and libpython: what else lies in its prefix may be a
    whole system. Raises Unavailable when it does not start.
    """
    try:
        found = json.loads(ask_python(python, _ASK))
        program, library = Path(found["program"]), Path(found["library"])
        inside = library.relative_to(found["prefix"])
        shared = Path(found["shared"]) if found["shared"] else None
    except GatherError as error:
        raise Unavailable(str(error)) from None
    except (ValueError, KeyError) as error:
        raise Unavailable(f"{python}: no Python that can be mounted: {error}") from None
    shown = f"{_PREFIX}/bin/{program.name}"
    mounts: Mounts = ((program, shown), (library, f"{_PREFIX}/{inside}"))
    variables = {}
    if shared is not None and shared.is_file():
        # The path that is built in names a folder of this host. It lies in no folder of the
        # system's: an object that needs it would load there, and not where Python is static.
        mounts = (*mounts, (shared.resolve(), f"{_LIBRARIES}/{shared.name}"))
        variables = {"LD_LIBRARY_PATH": _LIBRARIES}
    return MountedPython(program=shown, mounts=mounts, variables=variables)


def demand_fitting(python: MountedPython, container: Container, title: str, timeout: float) -> None:
    """Raise Unavailable where it does not run in a container with all of its library."""
    command = (python.program, "-I", "-S", "-c", _FITS)
    ended = container.run(command, timeout=timeout, variables=python.variables)
    said = (ended.stdout if ended.status == 0 else ended.stderr).strip()
    if ended.status != 0 or said:
        first = said.partition("\n")[0] or f"it ends with {ended.status}"
        raise Unavailable(
            f"{title} has no Python for it, and this host's does not run there ({first}): "
            "name one with --binary-python that needs nothing of a system, such as uv's"
        )
