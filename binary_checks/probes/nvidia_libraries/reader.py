"""Find which versions of NVIDIA's libraries are loaded, installed, pinned or compiled against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.model import Conditions, LibraryVersions, Place, ProbeAnswer

_SOURCES = ("compiled", "loaded", "installed", "pinned")


def ask_versions(
    place: Place, module: str, compiled: Mapping[str, str], conditions: Conditions
) -> tuple[tuple[LibraryVersions, ...], ProbeAnswer]:
    """Ask for the versions of NVIDIA's libraries in a process that imports the module.

    ``compiled`` maps libraries to expressions for the versions that they were compiled against.
    Also return how the process ended, with its answer.
    """
    request = {"module": module, "compiled": compiled}
    result = place.run("nvidia_libraries", request, conditions=conditions)
    return tuple(read_versions(result.answer)), result


def read_versions(answer: Mapping[str, Any]) -> Iterator[LibraryVersions]:
    """Read the versions of each library, sorted by name."""
    versions = answer.get("versions")
    for name, row in sorted(versions.items()) if isinstance(versions, dict) else ():
        values = row if isinstance(row, dict) else {}
        known = {source: str(values.get(source) or "") for source in _SOURCES}
        yield LibraryVersions(name=name, **known)
