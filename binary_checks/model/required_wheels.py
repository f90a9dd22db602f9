"""Whether an index has wheels of all that a package requires, and whether those given fit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RequiredWheels:
    """What came of downloading what a wheel requires, for its own Python and system."""

    lacking: str = ""
    """The first that there is none of: "wheel of torch>=2 for cp311 on win_amd64 or newer"."""
    found: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MisfitVersion:
    """A package given beside the judged one in a version that a requirement excludes."""

    name: str
    version: str
    requirement: str  # as it is spelled: "nvidia-nccl-cu13==2.30.7"
    by: str = ""  # who requires that, "cuda-toolkit 13.2.2"; "" for the judged package itself


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenVersions:
    """The packages given beside one, held against all that is required of them."""

    misfits: tuple[MisfitVersion, ...] = ()
