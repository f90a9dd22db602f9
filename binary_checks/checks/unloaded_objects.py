"""Says at which objects of a package the simulated loader could not look, or that there is none."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Format,
    Linkage,
    MalformedObject,
    NotLooked,
    Package,
    UnreadObject,
)


def find_unloaded(linkage: Linkage, package: Package) -> Iterator[NotLooked]:
    """Find the objects that nobody could read, so that the linkage says nothing of them.

    Raises NotApplicable where the package has nothing that the target's loader would load.
    """
    every: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    unread = [item for item in every if item.format is Format.ELF]
    if not (unread or linkage.closures):
        platform = linkage.target.partition(",")[0]
        raise NotApplicable(f"no ELF object that is loaded on {platform}")
    for item in unread:
        yield NotLooked(path=item.path, sentence=item.reason)
