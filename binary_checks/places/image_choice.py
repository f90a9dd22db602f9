"""Which image a name means: ``oldest`` and ``newest`` are found from what a package promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from binary_checks.errors import Unavailable
from binary_checks.model.claims import Claims, SystemClaim
from binary_checks.model.place_names import RELATIVE, split_digest
from binary_checks.model.root_filesystem import RootFilesystem

if TYPE_CHECKING:
    from binary_checks.places.images import ImageEntry

_BASE = "base"
"""The profile with what policies promise alone."""


def find_chosen(name: str, claims: Claims) -> RootFilesystem:
    """Find the image of a name, or the one that fits what a package promises.

    Raises Unavailable where there is none, or none can be had.
    """
    from binary_checks.places.images import find_image, list_images

    if name not in RELATIVE:
        return _find_exactly(name)
    entries = tuple(list_images())
    lacks = []
    for entry in rank(name, claims, entries):
        try:
            return find_image(entry.name)
        except Unavailable as error:
            lacks.append(str(error))
    if lacks:
        raise Unavailable(f"image:{name}: {lacks[0]}")
    raise Unavailable(f"image:{name}: {_say_none(claims, entries)}")


def _find_exactly(name: str) -> RootFilesystem:
    """Find the image of a name; of ``NAME@DIGEST`` with that digest, or one that begins so."""
    from binary_checks.places.images import find_image

    image, digest = split_digest(name)
    found = find_image(image)
    if not found.digest.startswith(digest):
        raise Unavailable(
            f"image:{image}: its digest is {found.digest}, and {digest} is asked for: it was built "
            "of other packages; pin them (binary-checks images pin)"
        )
    return found


def find_with_python(image: RootFilesystem) -> RootFilesystem:
    """Find the same system with a Python, where the image has none and there is such a one.

    In a root with a Python objects find libraries by luck that no policy promises, so that it is
    another one. Raises Unavailable where it cannot be had.
    """
    from binary_checks.places.images import find_image, list_images

    twins = {entry.name: entry.with_python for entry in list_images()}
    wanted = twins.get(image.name, "")
    return find_image(wanted) if wanted and not image.pythons else image


def rank(name: str, claims: Claims, entries: Sequence[ImageEntry]) -> Iterator[ImageEntry]:
    """The images that a package promises to run on, the one that is meant first."""
    fitting = [entry for entry in entries if any(_fits(entry, each) for each in claims.systems)]
    yield from sorted(
        fitting, key=lambda entry: (entry.libc_version, entry.name), reverse=name == "newest"
    )


def _fits(entry: ImageEntry, claim: SystemClaim) -> bool:
    """Whether it has the architecture, and the libc in the promised version or a newer one."""
    if entry.profile != _BASE or not entry.libc_version or claim.system not in {"linux", "any"}:
        return False
    libc = claim.libc or "glibc"
    right = claim.architectures == () or entry.machine in claim.architectures
    return right and entry.libc.startswith(f"{libc} ") and entry.libc_version >= _oldest(claim)


def _oldest(claim: SystemClaim) -> tuple[int, ...]:
    return claim.minimum or ()


def _say_none(claims: Claims, entries: Sequence[ImageEntry]) -> str:
    names = ", ".join(claim.name for claim in claims.systems) or "no system"
    there = ", ".join(f"{entry.name} ({entry.libc}, {entry.machine})" for entry in entries)
    return f"no image is one that {names} promises; there are {there or 'none'}"
