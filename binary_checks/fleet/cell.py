"""A cell of the matrix: one configuration of one project, which is looked up and judged nightly."""

from __future__ import annotations

from dataclasses import dataclass, fields

from binary_checks.profile.known import CellAxes

DEFAULT_TIMEOUT = 1800.0
"""Seconds that one attempt may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell(CellAxes):
    """The values of its axes, and how it is run; an axis that the matrix lacks is empty."""

    id: str  # its axis values, joined by "-": letters, digits and ._+- alone, so it names files
    project: str  # the axis that every matrix has
    kind: str = "wheel"  # wheel, conda, libtorch; the other axes follow, as conditions name them
    package: str = ""  # what is looked up in the source: numpy, numpy<3, a path, a URL
    gpu: bool = False  # whether it has a second stage, on a GPU host
    place: str = ""  # of --binary-place: image:oldest; "" for a fresh environment
    profile: str = ""  # of --binary-profile
    options: tuple[str, ...] = ()  # further ones of binary-checks
    timeout: float = DEFAULT_TIMEOUT  # seconds

    @property
    def axes(self) -> dict[str, str]:
        """The values by the axes' names, without those that are empty."""
        return {name: value for name in AXES if (value := getattr(self, name))}


AXES = tuple(each.name for each in fields(CellAxes) if each.name != "id")
"""In the order in which they make an id, and in which pages and tables have them."""
