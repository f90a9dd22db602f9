"""Which image a name means: a reference is taken as it is, ``oldest`` and ``newest`` are chosen."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from binary_checks.errors import NothingNamed
from binary_checks.model.packages import Claims, SystemClaim
from binary_checks.model.places import RELATIVE
from binary_checks.profile.toml_values import parse_toml

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEntry:
    """An image, and what is known of it before it runs."""

    name: str
    reference: str  # as podman and docker take it
    libc: str = ""  # "glibc 2.31"; "" of one that the user named
    architectures: tuple[str, ...] = ()
    clean: bool = True  # whether it has no libraries that a wheel may have forgotten

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version of the C library as numbers."""
        number = self.libc.rpartition(" ")[2]
        return tuple(int(part) for part in number.split("."))

    @property
    def reservation(self) -> str:
        """What a pass there does not prove, as a sentence; "" where that is nothing."""
        if self.clean:
            return ""
        return (
            f"image {self.name} carries libraries that no platform tag promises, such as libssl "
            "and libcurl: a package that forgot one of them passes there"
        )


@lru_cache
def list_images() -> tuple[ImageEntry, ...]:
    """List the images of our table."""
    content = resources.files("binary_checks.places").joinpath("images.toml").read_bytes()
    tables = parse_toml(content, "images.toml")
    return tuple(
        ImageEntry(
            name=name,
            reference=table["reference"],
            libc=table["libc"],
            architectures=tuple(table["architectures"]),
            clean=table.get("clean", True),
        )
        for name, table in tables.items()
    )


def choose_image(name: str, claims: Claims) -> ImageEntry:
    """Choose the image of that name, or the one that fits what a package promises.

    Raises NothingNamed where there is none of the table that fits.
    """
    entries = list_images()
    if name not in RELATIVE:
        named = (entry for entry in entries if entry.name == name)
        return next(named, ImageEntry(name=name, reference=name))
    machine = spell_host_architecture()
    found = next(rank(name, claims, entries, machine), None)
    if found is None:
        promised = ", ".join(claim.name for claim in claims.systems) or "no system"
        raise NothingNamed(
            f"no image that this host ({machine}) runs is one that {promised} promises "
            f"(image:{name})"
        )
    return found


def rank(
    name: str, claims: Claims, entries: Sequence[ImageEntry], machine: str
) -> Iterator[ImageEntry]:
    """Yield the images that a package promises to run on, the one that is meant first."""
    fitting = [
        entry
        for entry in entries
        if machine in entry.architectures
        and any(_fits(entry, each, machine) for each in claims.systems)
    ]
    yield from sorted(
        fitting, key=lambda entry: (entry.libc_version, entry.clean), reverse=name == "newest"
    )


def _fits(entry: ImageEntry, claim: SystemClaim, machine: str) -> bool:
    """Whether it has the libc in the promised version or a newer one, on this machine."""
    if claim.system not in {"linux", "any"}:
        return False
    if claim.architectures and machine not in claim.architectures:
        return False
    same = entry.libc.startswith(f"{claim.libc or 'glibc'} ")
    return same and entry.libc_version >= (claim.minimum or ())


def spell_host_architecture() -> str:
    """Spell the architecture of this host as the model does."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)
