"""Whether an index has wheels of all that a package requires."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RequiredWheels:
    """What came of downloading what a wheel requires, for its own Python and system."""

    lacking: str = ""
    """The first that there is none of: "wheel of torch>=2 for cp311 on win_amd64 or newer"."""
    found: int = 0
