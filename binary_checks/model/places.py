"""Places where packages run: their interface, and the values it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from packaging.markers import default_environment
from packaging.tags import Tag

from binary_checks.errors import ProfileError
from binary_checks.model.packages import Package
from binary_checks.model.probes import Ending, InstallReport
from binary_checks.model.protocols import Source
from binary_checks.model.requires_dist import MARKERS_OF_SYSTEMS
from binary_checks.model.system import read_numbers

# Clean systems: container images in which packages are loaded and imported.


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanSystem:
    """The system in a container image, as a process in the container sees it."""

    name: str  # name from our table ("debian-bullseye"), or the reference that the user gave
    libc: str = ""  # "glibc 2.31", "musl 1.2.5"; "" if unknown
    architecture: str = ""  # as in `ObjectFile`
    loader: str = ""  # "/lib64/ld-linux-x86-64.so.2"
    pythons: tuple[str, ...] = ()  # the paths of its interpreters
    commands: tuple[str, ...] = ()  # what its users start as ``python3`` and ``python``
    pinned: str = ""  # the exact reference, with digest: "docker.io/library/debian@sha256:f313…"
    reservation: str = ""  # a sentence on the limits of a pass on this system; "" if there are none

    @property
    def title(self) -> str:
        """The name in messages: "image debian-bullseye (glibc 2.31)"."""
        return f"image {self.name} ({self.libc})" if self.libc else f"image {self.name}"

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version of libc as numbers: (2, 31)."""
        return read_numbers(self.libc.rpartition(" ")[2])


# bytes of private memory: importing torch or numba takes 1 GiB, a leak grows without limit
_MEMORY = 16 * 1024**3


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetPython:
    """An interpreter's description of itself."""

    executable: Path
    implementation: str = "CPython"
    version: str = ""  # "3.11.7"
    free_threaded: bool = False
    platform: str = ""  # sysconfig.get_platform(): "linux-x86_64"
    architecture: str = ""  # as in `ObjectFile`, of the machine that runs the interpreter
    libc: str = ""  # "glibc 2.36"; "" if unknown
    # "Debian GNU/Linux 12 (bookworm)", of the container if it runs in one; "" if unknown
    operating_system: str = ""
    extension_suffixes: tuple[str, ...] = ()  # in search order
    paths: Mapping[str, str]  # sysconfig.get_paths()
    prefix: str = ""
    # the system of a container, "image bullseye (glibc 2.31)", or a runtime, "Pyodide 314.0.4"; ""
    # for this host
    system: str = ""
    # a sentence on the limits of a pass with this interpreter; "" if there are none
    reservation: str = ""
    tags: frozenset[Tag] = frozenset()  # the wheel tags that the interpreter supports
    ranked_tags: tuple[Tag, ...] = ()  # the same tags in order of preference

    @property
    def name(self) -> str:
        """The name in reports: "CPython 3.13.0 free-threaded"."""
        python = f"{self.implementation} {self.version}{' free-threaded' * self.free_threaded}"
        return f"{self.system}, {python}" if self.system else python

    @property
    def markers(self) -> dict[str, str]:
        """The interpreter's values of environment markers, without extras."""
        here = {name: str(value) for name, value in default_environment().items()}
        version = {"python_version": self.version.rpartition(".")[0], "extra": ""}
        # Containers run Linux even if this host is a Mac, and Pyodide is a system of its own.
        system = "emscripten" if self.platform.startswith("emscripten") else "linux"
        names = MARKERS_OF_SYSTEMS[system]
        there = {**names, "platform_machine": self.architecture} if self.system else {}
        return {**here, **version, **there, "python_full_version": self.version}

    @property
    def site_packages(self) -> Path:
        """The directory into which platform wheels are installed."""
        return Path(self.paths["platlib"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """The conditions under which a probe runs, apart from its time limit."""

    variables: Mapping[str, str] = field(default_factory=dict)  # added to the clean environment
    memory: int = _MEMORY  # limit of private bytes; 0: none
    calls: bool = False  # whether a debugger records the native stack of a process that hangs
    # False: no installed code runs at startup, neither .pth files nor sitecustomize
    site: bool = True
    gpu: bool = False  # whether the probe may use the host's GPUs
    services: tuple[Path, ...] = ()  # folders with sockets of services of this host
    decoys: Mapping[str, bytes] = field(default_factory=dict)
    """Libraries that a loader finds before the real ones: name -> content. The loader refuses an
    empty one.
    """
    stages: Mapping[str, float] = field(default_factory=dict)
    """Stage -> seconds between the report of that stage and the report of the next."""
    # whether the probe shares compiled modules with other probes that have this set
    bytecode: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeAnswer:
    """The answer of a probe, and how the probe's process ended."""

    answer: Mapping[str, Any] = field(default_factory=dict)  # empty if the probe gave no answer
    outcome: Ending = Ending.OK  # OK, CRASHED, HUNG or EXITED (before the probe's own end)
    detail: str = ""  # signal name, time limit in seconds, exit status
    places: tuple[str, ...] = ()  # Python lines recorded by faulthandler, innermost first
    # native functions on the stack of a hanging process, innermost first
    calls: tuple[str, ...] = ()
    stderr: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderAnswer:
    """The output of a place's loader for one object."""

    path: str  # of the object, relative to the prefix
    printed: str = ""
    complaints: str = ""  # messages of the loader on stderr
    lack: str = ""  # why there is no answer


INSTALLERS: Final = ("pip", "uv", "poetry")
INSTALL_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallWay:
    """One of the ways in which a project's users install it."""

    name: str = ""  # argument of the place: "numpy-1" for ``venv:numpy-1``; "" for the usual way
    tool: str = ""  # one of `INSTALLERS`; "" for uv, or pip if there is no uv
    requires: tuple[str, ...] = ()  # what is installed together with the package
    options: tuple[tuple[str, str], ...] = ()  # options of pip, each with its value or ""
    command: str = ""  # as users are told; ``requires`` then has the package itself, too


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledFolders:
    """Folders of this host in which a package and its requirements were installed."""

    site_packages: Path
    prefix: Path  # prefix of the environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """The package as installed by this run, together with other packages."""

    source: Source


class Place(AbstractContextManager["Place"], Protocol):
    """A place where packages run; paths in the place are not paths of this host.

    Creating a place costs nothing. Until a package is installed, ``target`` is the interpreter from
    which the place is created.
    """

    timeout: float  # seconds for one probe

    @property
    def target(self) -> TargetPython:
        """The place's interpreter. Raises GatherError if the interpreter does not answer."""

    @property
    def preinstalled(self) -> tuple[str, ...]:
        """Packages that were requested and found already installed: "numpy 2.4.6"."""

    def install(self, package: Package) -> InstallReport | None:
        """Install the package once; return None if it was installed before and no installer ran.

        If the installer refuses the package, the report says so. Raises Unavailable if the package
        does not fit the place or a requirement is not available, GatherError if the interpreter,
        the network or the machine failed. Every later call raises the same error.
        """

    @property
    def install_seconds(self) -> float:
        """Seconds spent on creating the environment and installing; 0 before the installation."""

    def keep(self) -> None:
        """Leave the environment where it is when the place is closed."""

    def require_installed(self, package: Package) -> None:
        """Install the package. Raises Unavailable if the installer refuses the package."""

    @property
    def installed(self) -> InstalledFolders | None:
        """The folders of the installed package.

        None before the installation, or if this host cannot read the files.
        """

    def with_requirements(self, requires: tuple[str, ...]) -> Place:
        """Return another place like this one, but with these requirements installed."""

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run one of our probes by name, or another script by path.

        The request also states where packages are installed (``site_packages``).
        """

    @property
    def system(self) -> CleanSystem | None:
        """The place's clean system; None if packages run on this host's system.

        Raises Unavailable if the clean system is not available.
        """

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Let the place's loader load objects of the package, one after the other.

        No code of the objects runs.

        Paths, also in answers, are relative to the package's prefix. Raises NotApplicable if
        packages run on this host's system, Unavailable if the package cannot be installed in the
        place.
        """

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return variables with which loaders in the place find the drivers of this host's GPUs."""

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file, absolute or in site-packages; "" if it cannot be read."""

    def scrub(self, text: str) -> str:
        """Make paths in a text relative to site-packages, and remove temporary paths."""

    def shown(self, path: str) -> str:
        """Return a path with "/", relative to site-packages if inside."""

    def close(self) -> None:
        """Remove everything that the place created."""


# The places in which packages run: the values of ``--binary-place``, one for each place.

PLACE_KINDS: Final[Mapping[str, str]] = {
    "venv": "[INSTALL]",
    "existing": "PYTHON",
    "prefix": "PATH",
    "image": "REFERENCE",
    "pyodide": "[FOLDER]",
}
"""The argument of each kind of place, in brackets if it may be left out."""
SPELLINGS: Final = "venv|existing:PYTHON|prefix:PATH|image:REFERENCE|pyodide"
OLDEST: Final = "oldest"
_RELATIVE = re.compile(rf"(?:{OLDEST}|newest)(?:-(?P<family>[a-z]+))?")

_REFERENCE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceName:
    """A place as the user names it, resolved when a package is installed in the place.

    ``venv``: a fresh environment, ``venv:INSTALL`` one that is made as an entry of ``installs`` in
    the profile says. ``existing:PYTHON``: the environment of an interpreter in which the package is
    installed. ``prefix:PATH``: a folder with a virtual environment or a conda
    prefix. ``image:REFERENCE``: a container of an image. ``pyodide``: Pyodide in Node, from the
    nearest ``node_modules/pyodide`` or, as ``pyodide:FOLDER``, from that folder.
    """

    kind: str = "venv"
    argument: str = ""  # as written by the user

    @property
    def label(self) -> str:
        """The place's name in items and reports."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    @property
    def is_there(self) -> bool:
        """Whether the place is an environment in which the package is already installed."""
        return self.kind in {"existing", "prefix"}


def read_relative(name: str) -> str | None:
    """Return None unless a package's promises choose the image: ``oldest``, ``newest-debian``.

    The result is the distribution to which the choice is limited, or "".
    """
    match = _RELATIVE.fullmatch(name)
    return match["family"] or "" if match else None


def read_place(text: str) -> PlaceName:
    """Parse a place as users write it: one of `SPELLINGS`, ``venv:INSTALL``, ``pyodide:FOLDER``.

    Raises ProfileError for anything else.
    """
    kind, colon, argument = text.partition(":")
    wanted = PLACE_KINDS.get(kind)
    if wanted is None:
        raise ProfileError(f"{text}: unknown place; expected one of {SPELLINGS}")
    optional = wanted.startswith("[") and not colon
    if not argument and not optional:
        spelled = f"{kind}:{wanted.strip('[]')}"
        raise ProfileError(f"{text}: a place of this kind is written as {spelled}")
    if kind == "venv" and argument and not INSTALL_NAME.fullmatch(argument):
        raise ProfileError(f"{text}: not the name of an entry of 'installs' in a profile")
    if kind == "image" and not _REFERENCE.fullmatch(argument):
        raise ProfileError(f"{text}: not an image reference, such as debian:bookworm-slim")
    return PlaceName(kind=kind, argument=argument)
