"""Reads what the probe of NVIDIA's libraries wrote of their versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.model import LibraryVersions

_PLACES = ("compiled", "loaded", "installed", "pinned")


def read_versions(answer: Mapping[str, Any]) -> Iterator[LibraryVersions]:
    """Read the versions of each library, by name."""
    versions = answer.get("versions")
    for name, row in sorted(versions.items()) if isinstance(versions, dict) else ():
        told = row if isinstance(row, dict) else {}
        known = {place: str(told.get(place) or "") for place in _PLACES}
        yield LibraryVersions(name=name, **known)
