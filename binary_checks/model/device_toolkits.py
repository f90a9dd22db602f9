"""Which toolkits made the device code of a package, by a look at a few pieces of each object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitSample:
    """A few of the cubins and texts of PTX of one object, spread over all of it."""

    path: str
    toolkits: tuple[tuple[str, int], ...] = ()
    """By toolkit ("13.2"; "" where a cubin states none) how many cubins, the most first."""
    ptx: tuple[tuple[str, int], ...] = ()  # the same by version of PTX, "9.2"
    seen: int = 0  # how many of both were looked at
    total: int = 0  # how many of both there are
    unread: str = ""  # why some of those chosen could not be read


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceToolkits:
    """One sample for each object with code for NVIDIA's GPUs."""

    samples: tuple[ToolkitSample, ...] = ()  # in the order of the package's objects
