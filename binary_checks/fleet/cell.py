"""A cell of the matrix: one configuration of one project, which is looked up and judged nightly."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_TIMEOUT = 1800.0
"""Seconds that one attempt may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """The values of its axes, and how it is run; an axis that the matrix lacks is empty."""

    id: str  # its axis values, joined by "-": letters, digits and ._+- alone, so it names files
    project: str  # the axis that every matrix has
    kind: str = "wheel"  # wheel, conda, libtorch
    libtorch: str = ""  # shared-with-deps, static-without-deps, …
    system: str = ""  # linux, macos, windows
    architecture: str = ""  # x86_64, aarch64, arm64, amd64, …, as tags of the system have it
    python: str = ""  # 3.12, 3.13t
    variant: str = ""  # cpu, cu126, rocm6.4
    cxx_abi: str = ""  # pre-cxx11, cxx11
    channel: str = ""  # where it is published; a table of the matrix
    package: str = ""  # what is looked up in the channel: numpy, numpy<3, a path, a URL
    gpu: bool = False  # whether it has a second stage, on a GPU host
    place: str = ""  # of --binary-place: image:oldest; "" for a fresh environment
    profile: str = ""  # of --binary-profile
    options: tuple[str, ...] = ()  # further ones of binary-checks
    timeout: float = DEFAULT_TIMEOUT  # seconds

    @property
    def axes(self) -> dict[str, str]:
        """The values by the axes' names, without those that are empty."""
        return {name: value for name in AXES if (value := getattr(self, name))}


AXES = (
    "project",
    "kind",
    "libtorch",
    "system",
    "architecture",
    "python",
    "variant",
    "cxx_abi",
    "channel",
)
"""In the order in which they make an id, and in which pages and tables have them."""
