"""Root file systems: the clean systems of images, in which packages are loaded and imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOUNT_POINTS = (
    *("proc", "dev", "tmp", "sys", "run", "mnt", "mnt/package", "mnt/probes"),
    *("root", "home", "run/binary_checks"),
)
"""Empty folders that each root has, for nothing can be made in one that is only read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePython:
    """An interpreter of a root."""

    path: str  # in the root: "/usr/bin/python3.9"
    version: str  # "3.9"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePackage:
    """A package of the distribution that a root consists of."""

    name: str
    version: str
    architecture: str  # as the distribution spells it: "amd64", "all"
    sha256: str  # of the package's file

    def __str__(self) -> str:
        return f"{self.name}={self.version}={self.sha256}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RootFilesystem:
    """A clean system in a folder of this host; nothing of it is ever written to."""

    name: str  # of the image: "bullseye", "trixie-arm64"
    path: Path
    libc: str = ""  # "glibc 2.31", "musl 1.2.5"; "" where it has none that is known
    architecture: str = ""  # the model's spelling
    loader: str = ""  # in the root: "/lib64/ld-linux-x86-64.so.2"
    pythons: tuple[ImagePython, ...] = ()
    digest: str = ""  # SHA-256 over paths, modes, contents and links; "" of a folder of the user's
    packages: tuple[ImagePackage, ...] = ()
    runner: tuple[str, ...] = ()  # what starts a program there, in the root; (): the kernel does
    binds: tuple[tuple[Path, str], ...] = ()  # files of this host that the runner is made of
    lacks: tuple[str, ...] = ()  # libraries that its policy promises, and this root cannot have
    reservation: str = ""  # what a pass there does not prove, as a sentence

    @property
    def title(self) -> str:
        """How sentences call it: "image bullseye (glibc 2.31)"."""
        return f"image {self.name} ({self.libc})" if self.libc else f"image {self.name}"

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version as numbers: (2, 31)."""
        number = self.libc.rpartition(" ")[2]
        return tuple(int(part) for part in number.split(".") if part.isdecimal())
