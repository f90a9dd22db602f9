"""Where packages run: what a place is asked, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from packaging.markers import default_environment
from packaging.tags import Tag

from binary_checks.errors import ProfileError
from binary_checks.model.packages import Package
from binary_checks.model.probes import Ending, InstallReport
from binary_checks.model.protocols import Source

# Clean systems: what a container of an image is, in which packages are loaded and imported.


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanSystem:
    """The system of an image, as a process in it finds it."""

    name: str  # of our table ("debian-bullseye"), or the reference that the user gave
    libc: str = ""  # "glibc 2.31", "musl 1.2.5"; "" where it has none that is known
    architecture: str = ""  # the model's spelling
    loader: str = ""  # "/lib64/ld-linux-x86-64.so.2"
    pythons: tuple[str, ...] = ()  # the paths of its interpreters
    pinned: str = ""  # the reference of this very image: "docker.io/library/debian@sha256:f313…"
    reservation: str = ""  # what a pass there does not prove, as a sentence

    @property
    def title(self) -> str:
        """How sentences call it: "image debian-bullseye (glibc 2.31)"."""
        return f"image {self.name} ({self.libc})" if self.libc else f"image {self.name}"

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version as numbers: (2, 31)."""
        number = self.libc.rpartition(" ")[2]
        return tuple(int(part) for part in number.split(".") if part.isdecimal())


_MEMORY = 16 * 1024**3  # bytes of private memory: torch imports in 1, numba in 1; a leak has no end
_LINUX = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetPython:
    """What an interpreter answers when it is asked who it is."""

    executable: Path
    implementation: str = "CPython"
    version: str = ""  # "3.11.7"
    free_threaded: bool = False
    platform: str = ""  # sysconfig.get_platform(): "linux-x86_64"
    architecture: str = ""  # the model's spelling, of the machine that runs it
    libc: str = ""  # "glibc 2.36"; "" where it cannot be asked
    extension_suffixes: tuple[str, ...] = ()  # in the order in which it looks
    paths: Mapping[str, str]  # sysconfig.get_paths()
    prefix: str = ""
    system: str = ""  # that it is of, where that is not this host's: "image bullseye (glibc 2.31)"
    reservation: str = ""  # what a pass there does not prove, as a sentence
    tags: frozenset[Tag] = frozenset()  # the wheel tags that it takes
    ranked_tags: tuple[Tag, ...] = ()  # the same, best first

    @property
    def name(self) -> str:
        """How reports name it: "CPython 3.13.0 free-threaded"."""
        python = f"{self.implementation} {self.version}{' free-threaded' * self.free_threaded}"
        return f"{self.system}, {python}" if self.system else python

    @property
    def markers(self) -> dict[str, str]:
        """The values of environment markers there, without extras."""
        here = {name: str(value) for name, value in default_environment().items()}
        version = {"python_version": self.version.rpartition(".")[0], "extra": ""}
        # Containers are Linux's also where this host is a Mac.
        linux = {**_LINUX, "platform_machine": self.architecture} if self.system else {}
        return {**here, **version, **linux, "python_full_version": self.version}

    @property
    def site_packages(self) -> Path:
        """Where platform wheels land."""
        return Path(self.paths["platlib"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """Under what a probe runs, beside its time limit."""

    variables: Mapping[str, str] = field(default_factory=dict)  # added to the clean environment
    memory: int = _MEMORY  # private bytes that it may have; 0: as many as there are
    calls: bool = False  # whether a debugger is asked for the native stack of a hang
    site: bool = True  # without it nothing runs that is installed: no .pth, no sitecustomize
    gpu: bool = False  # whether the host's devices are its own, too
    services: tuple[Path, ...] = ()  # folders in which it meets services of this host
    decoys: Mapping[str, bytes] = field(default_factory=dict)
    """Libraries that a loader finds first, by name, with their content: it refuses an empty one."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds from the report of a stage on in which the probe must report the next one."""
    bytecode: bool = False  # whether it shares compiled modules with the others that ask for it


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeAnswer:
    """What a probe said before it ended, and how it ended."""

    answer: Mapping[str, Any] = field(default_factory=dict)  # empty when it said nothing
    outcome: Ending = Ending.OK  # OK, CRASHED, HUNG or EXITED (before the probe's own end)
    detail: str = ""  # signal name, seconds of the limit, exit status
    places: tuple[str, ...] = ()  # the Python lines that faulthandler saw it in, innermost first
    calls: tuple[str, ...] = ()  # the native functions that it hung in, innermost first
    stderr: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderAnswer:
    """What the loader of a place wrote when it was to load one object."""

    path: str  # of the object, in the prefix
    printed: str = ""
    complaints: str = ""  # on stderr
    lack: str = ""  # why it has no answer


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledFolders:
    """Where on this host a package was installed, with what it requires."""

    site_packages: Path
    prefix: Path  # of the environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """The package as this run has installed it, where it has others installed beside it."""

    source: Source


class Place(Protocol):
    """Where a package runs. Nothing in it is reached by a path of the host: the place is asked.

    Making one costs nothing. Until something is installed, its interpreter is the one that it is
    made from.
    """

    timeout: float  # seconds for one probe

    @property
    def target(self) -> TargetPython:
        """The interpreter there. Raises GatherError where it does not answer."""

    @property
    def beside(self) -> tuple[str, ...]:
        """What was asked for and taken as it is installed: "numpy 2.4.6"."""

    def install(self, package: Package) -> InstallReport | None:
        """Put the package there, once; None where no installer did, as where it lay there before.

        A package that the installer refuses gives a report that says so. Raises Unavailable when
        it does not fit the place or something that it requires is not to be had, GatherError when
        the interpreter, the network or the machine broke; at every later call, too.
        """

    @property
    def install_seconds(self) -> float:
        """What the installation took, with the environment that was made for it; 0 before."""

    def demand(self, package: Package) -> None:
        """Install it, and raise Unavailable when it was refused: then there is nothing to run."""

    @property
    def installed(self) -> InstalledFolders | None:
        """Where it was installed; None before that, and where its files are not to be read here."""

    def apart(self, requires: tuple[str, ...]) -> Place:
        """Give another place like this one, in which these requirements are, too."""

    def run(
        self,
        script: str | Path,
        request: Mapping[str, object],
        *,
        timeout: float | None = None,
        conditions: Conditions | None = None,
    ) -> ProbeAnswer:
        """Run one of our probes by its name, or the script of another one by its path.

        The request says, too, where packages lie (``site_packages``).
        """

    @property
    def system(self) -> CleanSystem | None:
        """The clean system that it is; None where packages run on this host's.

        Raises Unavailable where that system cannot be had.
        """

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        """Have its own loader load objects of the package, one after the other; none of them runs.

        Paths are in the package's prefix, and so are those of the answers. Raises NotApplicable
        where packages run on this host's system, Unavailable where the package cannot be put there.
        """

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The variables that lead loaders there to the drivers of this host's GPUs."""

    def digest(self, path: str) -> str:
        """The SHA-256 of a file, absolute or in site-packages; "" when it cannot be read."""

    def scrub(self, text: str) -> str:
        """Write paths in a text relative to site-packages, and leave no temporary one."""

    def shown(self, path: str) -> str:
        """Write a path with "/", relative to site-packages when it lies below it."""

    def close(self) -> None:
        """Remove what was made."""

    def __enter__(self) -> Place: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


# Where the user wants packages to run: what ``--binary-place`` says, one value a place.

PLACE_KINDS: Final[Mapping[str, str]] = {
    "venv": "",
    "existing": "PYTHON",
    "prefix": "PATH",
    "image": "REFERENCE",
}
"""What each kind of place is given behind its colon, "" where that is nothing."""
SPELLINGS: Final = "venv|existing:PYTHON|prefix:PATH|image:REFERENCE"
RELATIVE: Final = frozenset({"oldest", "newest"})
"""Images that are chosen by what a package promises."""

_REFERENCE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceName:
    """A place as the user names it; which one that is shows when a package is put there.

    ``venv``: a fresh environment. ``existing:PYTHON``: that of an interpreter in which the package
    is installed. ``prefix:PATH``: that of a folder, a virtual environment or a conda prefix.
    ``image:REFERENCE``: a container of an image.
    """

    kind: str = "venv"
    argument: str = ""  # as it was spelled

    @property
    def label(self) -> str:
        """How items and reports name it."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    @property
    def is_there(self) -> bool:
        """Whether it is an environment that the package lies in already."""
        return self.kind in {"existing", "prefix"}


def read_place(text: str) -> PlaceName:
    """Read ``venv``, ``existing:PYTHON``, ``prefix:PATH`` or ``image:REFERENCE``.

    Raises ProfileError for anything else.
    """
    kind, colon, argument = text.partition(":")
    wanted = PLACE_KINDS.get(kind)
    if wanted is None:
        raise ProfileError(f"{text}: no such place; there are {SPELLINGS}")
    if bool(wanted) != bool(argument) or (colon and not wanted):
        spelled = f"{kind}:{wanted}" if wanted else kind
        raise ProfileError(f"{text}: a place of this kind is spelled {spelled}")
    if kind == "image" and not _REFERENCE.fullmatch(argument):
        raise ProfileError(f"{text}: no reference of an image, such as debian:bookworm-slim")
    return PlaceName(kind=kind, argument=argument)
