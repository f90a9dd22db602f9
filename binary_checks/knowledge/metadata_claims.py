"""Reads two claims of METADATA: what an extra requires, and which version this is."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.model.requires_dist import read_requirement


def find_names_in_extras(requires_dist: Iterable[str]) -> frozenset[str]:
    """The projects that are required by an extra alone."""
    always: set[str] = set()
    sometimes: set[str] = set()
    for text in requires_dist:
        requirement = read_requirement(text)
        if requirement is None:
            continue
        marked = requirement.marker is not None and "extra" in str(requirement.marker)
        (sometimes if marked else always).add(canonicalize_name(requirement.name))
    return frozenset(sometimes - always)


def same_version(said: str, meant: str) -> bool:
    """Compare as versions; what has no local label agrees with any (``1.0`` with ``1.0+cpu``)."""
    try:
        mine, theirs = Version(said), Version(meant)
    except ValueError:  # none, or one of thousands of digits
        return said == meant
    return mine == theirs or (mine.local is None and mine == Version(theirs.public))
