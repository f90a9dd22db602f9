"""Clean systems: what a container of an image is, in which packages are loaded and imported."""

from __future__ import annotations

from dataclasses import dataclass


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
