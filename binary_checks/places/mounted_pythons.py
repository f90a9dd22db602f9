"""Interpreters of this host, mounted into a container whose image has no Python that fits.

Most Pythons are linked with libraries of their own system. uv's are not: they are documented to run
with glibc 2.17 and later, there are builds for musl, and free-threaded ones.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Claims, PythonClaim
from binary_checks.places.containers import Container, Mounts
from binary_checks.places.image_table import find_host_architecture
from binary_checks.places.sandbox import ask_python
from binary_checks.processes import user_environment

_PREFIX = "/mnt/python"
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
"""Prints each module of the standard library that does not load, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MountedPython:
    """An interpreter of this host, with the mounts that it needs in a container."""

    program: str  # path of the interpreter in the container
    mounts: Mounts
    variables: Mapping[str, str]  # environment variables that the interpreter needs
    host: Path  # path of the interpreter on this host


def mount_python(python: Path) -> MountedPython:
    """Return the mounts for an interpreter, below another prefix than on this host.

    Mount only the program, the standard library and libpython: the prefix may contain a complete
    operating system. Raises Unavailable if the interpreter does not start.
    """
    try:
        found = json.loads(ask_python(python, _ASK))
        program, library = Path(found["program"]), Path(found["library"])
        inside = library.relative_to(found["prefix"])
        shared = Path(found["shared"]) if found["shared"] else None
    except GatherError as error:
        raise Unavailable(str(error)) from None
    except (ValueError, KeyError) as error:
        raise Unavailable(f"{python}: this Python cannot be mounted: {error}") from None
    shown = f"{_PREFIX}/bin/{program.name}"
    mounts: Mounts = ((program, shown), (library, f"{_PREFIX}/{inside}"))
    variables = {}
    if shared is not None and shared.is_file():
        # The library's built-in path names a folder of this host. Mount the library outside of the
        # system's folders. In these, an object that needs libpython would find it here, but not on
        # a system whose Python is static.
        libraries = f"{_PREFIX}/lib"
        mounts = (*mounts, (shared.resolve(), f"{libraries}/{shared.name}"))
        variables = {"LD_LIBRARY_PATH": libraries}
    return MountedPython(program=shown, mounts=mounts, variables=variables, host=python)


def require_fitting(
    python: MountedPython, container: Container, title: str, timeout: float
) -> None:
    """Raise Unavailable unless the interpreter, with its standard library, runs in a container."""
    command = (python.program, "-I", "-S", "-c", _FITS)
    ended = container.run(command, timeout=timeout, variables=python.variables)
    printed = (ended.stdout if ended.status == 0 else ended.stderr).strip()
    if ended.status != 0 or printed:
        first = printed.partition("\n")[0] or f"it ends with {ended.status}"
        raise Unavailable(
            f"{title} has no suitable Python, and this host's Python does not run there ({first}): "
            "name a self-contained Python with --binary-python, or install one: uv python install"
        )


# The Pythons that uv has installed on this host. They are found by their folders, and not run: one
# for musl does not run on a host with glibc.

_FOLDER = re.compile(
    r"cpython-(?P<major>3)\.(?P<minor>\d+)\.(?P<patch>\d+)(?P<free>\+freethreaded)?"
    r"-linux-(?P<machine>\w+)-(?P<libc>gnu|musl)\w*"
)
_MACHINES: Mapping[str, str] = {"armv7l": "armv7", "ppc64le": "powerpc64le"}
"""How uv spells architectures, where it differs."""
_MOST = 8  # interpreters that are mounted


class ManagedPython(NamedTuple):
    """A Python that uv has installed."""

    version: tuple[int, int, int]
    free_threaded: bool
    musl: bool
    folder: Path

    @property
    def name(self) -> str:
        """The name of its program, and of the folder of its standard library: "python3.13t"."""
        return "python{}.{}{}".format(*self.version[:2], "t" if self.free_threaded else "")

    @property
    def program(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / self.name


def find_managed_pythons(claims: Claims, folder: Path | None = None) -> list[ManagedPython]:
    """Return the installed Pythons that a package claims to run on, the oldest version first.

    Of two releases of one version, only the newer one is returned.
    """
    newest: dict[tuple[object, ...], ManagedPython] = {}
    for each in _list_managed(name_managed_folder() if folder is None else folder):
        key = each.version[:2], each.free_threaded, each.musl
        if any(_accepts(claim, each) for claim in claims.pythons):
            newest[key] = max(newest.get(key, each), each)
    return sorted(newest.values())[:_MOST]


def name_managed_folder() -> Path:
    """Return the folder in which uv installs Pythons."""
    environ = user_environment()
    if named := environ.get("UV_PYTHON_INSTALL_DIR", ""):
        return Path(named)
    data = environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data else Path.home() / ".local" / "share") / "uv" / "python"


def _list_managed(folder: Path) -> Iterator[ManagedPython]:
    machine = find_host_architecture()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        if match is None or match["machine"] != _MACHINES.get(machine, machine):
            continue
        version = (int(match["major"]), int(match["minor"]), int(match["patch"]))
        found = ManagedPython(version, bool(match["free"]), match["libc"] == "musl", path)
        if os.access(found.program, os.X_OK):
            yield found


def _accepts(claim: PythonClaim, python: ManagedPython) -> bool:
    if claim.implementation not in ("", "cpython") or claim.free_threaded != python.free_threaded:
        return False
    if claim.version is None:
        return True
    one, own = claim.is_for_one_version, python.version[:2]
    return own == claim.version if one else own >= claim.version


def mount_managed(python: ManagedPython, number: int) -> MountedPython:
    """Return the mounts for a Python of uv, below a prefix of its own."""
    prefix = f"{_PREFIX}{number}"
    library = python.folder / "lib"
    mounts = [
        (python.program.resolve(), f"{prefix}/bin/{python.name}"),
        (library / python.name, f"{prefix}/lib/{python.name}"),
    ]
    # its RUNPATH is $ORIGIN/../lib
    shared = (path for path in library.glob("libpython*.so*") if path.is_file())
    mounts += [(path.resolve(), f"{prefix}/lib/{path.name}") for path in sorted(shared)]
    return MountedPython(
        program=f"{prefix}/bin/{python.name}",
        mounts=tuple(mounts),
        variables={},
        host=python.program,
    )
