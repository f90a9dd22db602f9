"""What the headers of an archive include that is not in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LostInclude:
    """A header that includes, under no condition, another one that only its package could have."""

    path: str  # of the header, relative to the prefix
    included: str  # as it is written, with its quotes or brackets


@dataclass(frozen=True, kw_only=True, slots=True)
class Headers:
    """What was found in all of them."""

    count: int = 0  # of those that were read
    lost: tuple[LostInclude, ...] = ()
    unread: tuple[str, ...] = ()  # why some could not be judged, each with its path
