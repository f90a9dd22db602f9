"""The images that have a name: ``oldest`` is the system that a package's own tag promises.

A reference to any other image is used unchanged.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from binary_checks.errors import NothingNamed
from binary_checks.model import OLDEST, Claims, SystemClaim, read_relative
from binary_checks.profile import parse_toml

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures as the model names them, by their names on macOS and Windows."""
TABLE = "images.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEntry:
    """An image, with the facts that are known before it is started."""

    name: str
    tag: str  # what podman and docker pull: "docker.io/library/debian:trixie-slim"
    digest: str = ""  # of the index of all architectures: "sha256:…"; "" to follow the tag
    libc: str = ""  # "glibc 2.31"; "" for an image that the user named
    architectures: tuple[str, ...] = ()
    # False if the image has libraries that a wheel may have forgotten to include
    clean: bool = True
    python: str = ""  # "image" if it has Pythons, "host" if one of this host is mounted
    verified: str = ""  # the day on which somebody pulled it; "" if nobody has

    @property
    def reference(self) -> str:
        """The exact image if its digest is known, else the tag."""
        if not self.digest:
            return self.tag
        head, slash, last = self.tag.rpartition("/")
        return f"{head}{slash}{last.partition(':')[0]}@{self.digest}"

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version of the C library as numbers."""
        number = self.libc.rpartition(" ")[2]
        return tuple(int(part) for part in number.split("."))

    @property
    def reservation(self) -> str:
        """A sentence on the limits of a pass in this image; "" for a clean image."""
        if self.clean:
            return ""
        return (
            f"image {self.name} contains libraries that no platform tag promises, such as libssl "
            "and libcurl: a package that should contain one of them passes there without it"
        )


@lru_cache
def list_images() -> tuple[ImageEntry, ...]:
    """Return the images of ``images.toml``."""
    content = resources.files("binary_checks.places").joinpath(TABLE).read_bytes()
    return read_images(content)


def read_images(content: bytes) -> tuple[ImageEntry, ...]:
    """Read the table of images. Raises ProfileError."""
    tables = parse_toml(content, TABLE)
    return tuple(
        ImageEntry(
            name=name,
            tag=table["tag"],
            digest=table["digest"],
            libc=table["libc"],
            architectures=tuple(table["architectures"]),
            clean=table.get("clean", True),
            python=table["python"],
            verified=table["verified"],
        )
        for name, table in tables.items()
    )


def choose_image(name: str, claims: Claims) -> ImageEntry:
    """Return the image with that name, or the one that fits the systems that a package claims.

    Raises NothingNamed if no image of the table fits.
    """
    entries = list_images()
    if read_relative(name) is None:
        named = (entry for entry in entries if entry.name == name)
        return next(named, ImageEntry(name=name, tag=name))
    machine = find_host_architecture()
    found = next(rank(name, claims, entries, machine), None)
    if found is None:
        promised = ", ".join(claim.name for claim in claims.systems) or "none"
        raise NothingNamed(
            f"no image for this host ({machine}) contains a system that the package claims: "
            f"{promised} (image:{name})"
        )
    return found


def rank(
    name: str, claims: Claims, entries: Sequence[ImageEntry], machine: str
) -> Iterator[ImageEntry]:
    """Yield the images of the systems that a package claims, oldest first or newest first.

    ``newest-debian`` yields only the images of one distribution. Of two with the same C library,
    the one without further libraries comes first.
    """
    family = read_relative(name)
    fitting = [
        entry
        for entry in entries
        if machine in entry.architectures
        and (not family or entry.name.startswith(f"{family}-"))
        and any(_fits(entry, each, machine) for each in claims.systems)
    ]
    fitting.sort(key=lambda entry: not entry.clean)
    newest = not name.startswith(OLDEST)
    yield from sorted(fitting, key=lambda entry: entry.libc_version, reverse=newest)


def _fits(entry: ImageEntry, claim: SystemClaim, machine: str) -> bool:
    """Return whether the image runs on this machine, with the claimed libc or a newer one."""
    if claim.system not in {"linux", "any"}:
        return False
    if claim.architectures and machine not in claim.architectures:
        return False
    same = entry.libc.startswith(f"{claim.libc or 'glibc'} ")
    return same and entry.libc_version >= (claim.minimum or ())


def find_host_architecture() -> str:
    """Return the architecture of this host as the model names it."""
    machine = platform.machine().lower()
    return ARCHITECTURES.get(machine, machine)
